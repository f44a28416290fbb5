"""What models tell before they decode must agree with what they decode."""

import numpy as np
import pytest
import torch

from pcfgnat.grammar.lattice import HasLattice
from pcfgnat.structures import DAG, RHPCFG, Padded
from tests.networks.parallel_models import UNDROPPED, made

SOURCE = [2, 7, 5, 9, 3]


@pytest.mark.parametrize("name", ["pcfg", "pcfg of depth 2"])
def test_a_grammar_as_arrays(name: str) -> None:
    model = made(name, UNDROPPED)
    assert isinstance(model, HasLattice)
    found = model.lattice_scores(SOURCE, top=3)
    grammar = model.translation_distribution(Padded.from_lists([SOURCE]))
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
    model = made("dag", UNDROPPED)
    found = model.lattice_scores(SOURCE, top=1000)
    graph = model.translation_distribution(Padded.from_lists([SOURCE]))
    assert isinstance(graph, DAG)
    vertices = graph.transitions.shape[1]
    assert (found.kind, found.prefix_depth, found.prefix.shape) == ("dag", 0, (vertices, 0))
    assert np.array_equal(found.chain[:, 0], graph.transitions[0].numpy())
    assert found.top_ids.shape == graph.emit[0].shape  # as many as there are
    assert found.reach()[[1, -1]] == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["ctc", "vanilla"])
def test_other_models_have_no_rules_to_tell(name: str) -> None:
    with pytest.raises(ValueError, match="needs a model whose nodes are joined by rules, pcfg or dag"):
        made(name, UNDROPPED).lattice_scores(SOURCE, top=3)
