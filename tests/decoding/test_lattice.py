"""What networks tell before they are decoded must agree with their distributions."""

import numpy as np
import pytest
import torch

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.networks import CanvasNetwork
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.runtimes.base import Tables
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.structures import DAG, RHPCFG, Padded
from tests.support.zoo import UNDROPPED, made

SOURCE = [2, 7, 5, 9, 3]
SHORTER = [2, 7, 3]


def grammars_of(network: CanvasNetwork, *sources: list[int]) -> Grammars:
    runtime = torch_runtime(network)
    assert isinstance(runtime, Tables)
    ((group, found),) = runtime.grammars(sources)
    assert list(group) == [*range(len(sources))]
    return found


@pytest.mark.parametrize("name", ["pcfg", "pcfg of depth 2"])
def test_a_grammar_as_arrays(name: str) -> None:
    network = made(name, UNDROPPED)
    found = grammars_of(network, SOURCE).lattice(0, top=3)
    grammar = translation_distribution(network, Padded.from_lists([SOURCE]))
    assert isinstance(grammar, RHPCFG)
    assert (found.kind, found.support) == ("pcfg", grammar.support(0))
    assert np.array_equal(found.chain, grammar.scores.chain[0].numpy())
    assert np.array_equal(found.prefix, grammar.scores.prefix[0].numpy())
    emit = grammar.scores.emit[0]
    assert np.array_equal(found.top_ids[:, 0], emit.argmax(1).numpy())
    assert np.array_equal(found.top_log_probs, emit.gather(1, torch.tensor(found.top_ids)).numpy())
    assert (np.diff(found.top_log_probs) <= 0).all()
    assert found.reach()[[1, -1]] == pytest.approx(1.0)  # root and last node are always used


def test_a_graph_as_arrays() -> None:
    network = made("dag", UNDROPPED)
    found = grammars_of(network, SOURCE).lattice(0, top=1000)
    graph = translation_distribution(network, Padded.from_lists([SOURCE]))
    assert isinstance(graph, DAG)
    vertices = graph.transitions.shape[1]
    assert (found.kind, found.prefix_depth, found.prefix.shape) == ("dag", 0, (vertices, 0))
    assert np.array_equal(found.chain[:, 0], graph.transitions[0].numpy())
    assert found.top_ids.shape == graph.emit[0].shape  # as many as there are
    assert found.reach()[[1, -1]] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["pcfg", "pcfg of depth 2", "dag"])
def test_a_shorter_sentence_of_a_batch_has_no_padding(name: str) -> None:
    network = made(name, UNDROPPED)
    together = grammars_of(network, SOURCE, SHORTER).lattice(1, top=3)
    alone = grammars_of(network, SHORTER).lattice(0, top=3)
    assert together.support == alone.support
    assert np.array_equal(together.top_ids, alone.top_ids)
    assert together.top_log_probs == pytest.approx(alone.top_log_probs, abs=1e-12)
    assert together.chain == pytest.approx(alone.chain, abs=1e-12)
    assert together.prefix == pytest.approx(alone.prefix, abs=1e-12)


@pytest.mark.parametrize("name", ["ctc", "slots"])
def test_other_networks_have_no_rules_to_tell(name: str) -> None:
    assert not isinstance(torch_runtime(made(name, UNDROPPED)), Tables)
