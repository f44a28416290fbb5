"""The DA-Transformer: transitions against a loop over vertices, and what it can learn."""

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import Batch, DAGConfig, DAGNetwork
from pcfgnat.nn import LinkConfig
from pcfgnat.structures import DAG, Padded, Search
from tests.networks.parallel_models import LARGER, SMALL, made
from tests.networks.sentences import BOS, EOS, VOCABULARY, one, sentences
from tests.networks.toy_tasks import SHORT_COPY, SHORT_REVERSE, ToyTask, Training, exact_match, train
from tests.support.lattices import dag_oracle
from tests.support.oracle import log_sum
from tests.support.unchecked import shapes_unchecked


def lattice_of(model: DAGNetwork, *lengths: int) -> DAG:
    lattice = model.translation_distribution(Padded.from_lists(sentences(*lengths)))
    assert isinstance(lattice, DAG)
    return lattice


def model_of(config: LinkConfig, upsampling: int = 3) -> DAGNetwork:
    torch.manual_seed(0)
    return DAGNetwork(DAGConfig(SMALL, upsampling=upsampling, transitions=config), VOCABULARY).double()


def test_transitions_are_distributions_over_later_vertices() -> None:
    lattice = lattice_of(model_of(LinkConfig(heads=4)), 3, 2)
    assert lattice.num_nodes.tolist() == [9, 6]
    for b, size in enumerate([9, 6]):
        chances = lattice.transitions[b].exp()
        assert_close(chances[: size - 1].sum(1), torch.ones(size - 1, dtype=torch.float64))
        assert not bool(chances[size - 1 :].any())  # the last vertex and padding
        assert not bool(chances.tril().any())
        assert bool((chances[: size - 1, :size].triu(1) > 0).sum() == size * (size - 1) // 2)


@torch.no_grad()
def test_without_extras_a_transition_is_one_softmax_of_products() -> None:
    model = model_of(LinkConfig(heads=1, positions=False, gate=False, scale=False))
    seen: list[torch.Tensor] = []
    model.decoder.register_forward_hook(lambda _module, _inputs, states: seen.append(states))
    lattice = lattice_of(model, 3)
    before, after = (seen[0][0] @ projection.weight.t() for projection in model.links.project)  # type: ignore[operator]
    for vertex in range(8):
        expected = (after[vertex + 1 :] @ before[vertex]).log_softmax(0)
        assert_close(lattice.transitions[0, vertex, vertex + 1 :], expected)


def test_log_prob_equals_enumeration() -> None:
    model = made("dag")
    assert isinstance(model, DAGNetwork)
    lattice = lattice_of(model, 2)
    for target in sentences(2, 3, 5):
        expected = log_sum([score for score, _ in dag_oracle(lattice, 0).of(target)])
        assert float(lattice.log_prob(Padded.from_lists([target]))) == pytest.approx(expected, abs=1e-10)


def test_targets_longer_than_the_graph_are_left_out() -> None:
    model = model_of(LinkConfig(heads=2), upsampling=1).eval()
    batch = Batch(Padded.from_lists(sentences(3, 3)), Padded.from_lists(sentences(3, 4, seed=1)))
    loss = model.loss(batch, 0.0)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 3, 1)
    assert_close(loss.value, model.loss(one(batch, 0), 0.0).value)
    reasons = lattice_of(model, 3, 3).infeasible(batch.target)
    assert reasons == {1: "4 tokens, but 3 vertices emit 2 to 3"}


def test_a_source_of_one_token_has_two_vertices() -> None:
    model = model_of(LinkConfig(heads=2), upsampling=1)
    ((hypothesis,),) = model.translate(Padded.from_lists([[5]]), Search("joint-viterbi"))
    assert (hypothesis.ids, hypothesis.nodes) == ((BOS, EOS), (0, 1))


def test_bad_configs_are_named() -> None:
    with pytest.raises(ValueError, match="upsampling must be at least 1, got 0"):
        DAGConfig(upsampling=0)


@shapes_unchecked()
@pytest.mark.parametrize("task", [SHORT_COPY, SHORT_REVERSE])
def test_learns(task: ToyTask) -> None:
    torch.manual_seed(0)
    model = DAGNetwork(DAGConfig(LARGER, upsampling=4, transitions=LinkConfig(4)), task.vocabulary)
    train(model, task, Training.short())
    for strategy in ("joint-viterbi", "viterbi", "lookahead", "greedy"):
        assert exact_match(model, task, Search(strategy), sentences=100) >= 0.97
