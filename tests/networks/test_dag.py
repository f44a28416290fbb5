"""The DA-Transformer: transitions against a loop over vertices."""

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import DAGConfig, DAGNetwork
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.nn import LinkConfig
from pcfgnat.structures import DAG, Padded
from tests.support.decoded import translated
from tests.support.lattices import dag_oracle
from tests.support.oracle import log_sum
from tests.support.sentences import BOS, EOS, VOCABULARY, sentences, source_of
from tests.support.zoo import SMALL, made


def lattice_of(network: DAGNetwork, *lengths: int) -> DAG:
    lattice = translation_distribution(network, source_of(*lengths))
    assert isinstance(lattice, DAG)
    return lattice


def network_of(config: LinkConfig, upsampling: int = 3) -> DAGNetwork:
    torch.manual_seed(0)
    return DAGNetwork(DAGConfig(SMALL, upsampling=upsampling, transitions=config), VOCABULARY).double()


def test_transitions_are_distributions_over_later_vertices() -> None:
    lattice = lattice_of(network_of(LinkConfig(heads=4)), 3, 2)
    assert lattice.num_nodes.tolist() == [9, 6]
    for b, size in enumerate([9, 6]):
        chances = lattice.transitions[b].exp()
        assert_close(chances[: size - 1].sum(1), torch.ones(size - 1, dtype=torch.float64))
        assert not bool(chances[size - 1 :].any())  # the last vertex and padding
        assert not bool(chances.tril().any())
        assert bool((chances[: size - 1, :size].triu(1) > 0).sum() == size * (size - 1) // 2)


@torch.no_grad()
def test_without_extras_a_transition_is_one_softmax_of_products() -> None:
    network = network_of(LinkConfig(heads=1, positions=False, gate=False, scale=False))
    seen: list[torch.Tensor] = []
    network.decoder.register_forward_hook(lambda _module, _inputs, states: seen.append(states))
    lattice = lattice_of(network, 3)
    before, after = (seen[0][0] @ projection.weight.t() for projection in network.links.project)  # type: ignore[operator]
    for vertex in range(8):
        expected = (after[vertex + 1 :] @ before[vertex]).log_softmax(0)
        assert_close(lattice.transitions[0, vertex, vertex + 1 :], expected)


def test_log_prob_equals_enumeration() -> None:
    network = made("dag")
    assert isinstance(network, DAGNetwork)
    lattice = lattice_of(network, 2)
    for target in sentences(2, 3, 5):
        expected = log_sum([score for score, _ in dag_oracle(lattice, 0).of(target)])
        assert float(lattice.log_prob(Padded.from_lists([target]))) == pytest.approx(expected, abs=1e-10)


def test_a_graph_says_what_does_not_fit() -> None:
    lattice = lattice_of(network_of(LinkConfig(heads=2), upsampling=1), 3, 3)
    reasons = lattice.infeasible(Padded.from_lists(sentences(3, 4, seed=1)))
    assert reasons == {1: "4 tokens, but 3 vertices emit 2 to 3"}


def test_a_source_of_one_token_has_two_vertices() -> None:
    network = network_of(LinkConfig(heads=2), upsampling=1)
    ((hypothesis,),) = translated(network, "joint-viterbi", [[5]])
    assert (hypothesis.ids, hypothesis.nodes) == ((BOS, EOS), (0, 1))


def test_bad_configs_are_named() -> None:
    with pytest.raises(ValueError, match="upsampling must be at least 1, got 0"):
        DAGConfig(upsampling=0)
