"""PCFG-NAT: rules against a loop over the support tree."""

import math

import pytest
import torch
from torch import Tensor

from pcfgnat.networks import PCFGConfig, PCFGNetwork
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.networks.pcfg import RuleNetwork
from pcfgnat.nn import LinkConfig
from pcfgnat.structures import RHPCFG, Padded, SupportTree
from tests.support.decoded import translated
from tests.support.grammars import oracle
from tests.support.oracle import GrammarOracle
from tests.support.sentences import sentences
from tests.support.zoo import LARGER, made

WIDTH = 8
LINKS = [
    LinkConfig(heads=2),
    LinkConfig(heads=2, positions=False, gate=False),
    LinkConfig(heads=1, positions=False, gate=False, scale=False),
]
PAPER = LINKS[-1]


def network(config: LinkConfig, depth: int) -> RuleNetwork:
    torch.manual_seed(0)
    return RuleNetwork(config, WIDTH, 40, depth).double()


def states_of(tree: SupportTree, batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, tree.num_nodes, WIDTH, generator=generator, dtype=torch.float64)


def chances(
    network: RuleNetwork, states: Tensor, node: int, pairs: list[tuple[int, int]]
) -> dict[tuple[int, int], float]:
    """P(<left, right> | node) of one sentence: each head's softmax over all pairs, mixed by the gate."""
    links = network.links
    parent, left, right = (links.vectors(role, links.features(states[None]))[0] for role in range(3))
    gate = torch.full((links.heads,), 1 / links.heads, dtype=torch.float64)
    if links.gate is not None:
        gate = links.gate(links.features(states[None])[0, node]).softmax(0)
    found = dict.fromkeys(pairs, 0.0)
    for head in range(links.heads):
        weights = {}
        for b, c in pairs:
            q, k, r = parent[head, node], left[head, b], right[head, c]
            weights[b, c] = math.exp(float(q @ k + q @ r + k @ r) * links.factor)
        for pair, weight in weights.items():
            found[pair] += float(gate[head]) * weight / sum(weights.values())
    return found


@torch.no_grad()
@pytest.mark.parametrize("config", LINKS)
@pytest.mark.parametrize(("chain_length", "depth"), [(5, 0), (4, 1), (3, 2), (3, 3)])
def test_rules_equal_a_loop_over_children(config: LinkConfig, chain_length: int, depth: int) -> None:
    tree, rules = SupportTree(chain_length, depth), network(config, depth)
    states, sizes = states_of(tree, 2), [chain_length, chain_length - 1]
    states[1, SupportTree(sizes[1], depth).num_nodes :] = 1e3  # padding
    chain, prefix = rules(states, torch.tensor(sizes))
    for b, size in enumerate(sizes):
        own = SupportTree(size, depth)
        table = GrammarOracle(own, chain[b].tolist(), prefix[b].tolist(), None)
        for node in range(1, own.num_nodes):
            pairs = list(own.children(node))
            expected = chances(rules, states[b, : own.num_nodes], node, pairs)
            found = {pair: math.exp(table.rule(node, *pair)) for pair in pairs}
            assert found == pytest.approx(expected, abs=1e-12)
            if pairs:
                assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
        for k in range(size):  # nothing else on the main chain
            legal = sum(1 for _ in own.children(own.chain_node(k)))
            assert int((chain[b, k] > -math.inf).sum()) == legal


@torch.no_grad()
def test_without_extras_the_rules_are_the_paper_s_formula() -> None:
    tree, rules = SupportTree(4, 1), network(PAPER, 1)
    states = states_of(tree, 1)
    chain, _ = rules(states, torch.tensor([4]))
    W_q, W_l, W_r = (projection.weight for projection in rules.links.project)
    node = tree.chain_node(1)
    pairs = list(tree.children(node))
    q = {role: states[0] @ W.t() for role, W in (("i", W_q), ("j", W_l), ("k", W_r))}  # type: ignore[operator]
    scores = torch.stack(
        [q["i"][node] @ q["j"][j] + q["i"][node] @ q["k"][k] + q["j"][j] @ q["k"][k] for j, k in pairs]
    )
    table = GrammarOracle(tree, chain[0].tolist(), None, None)
    assert [table.rule(node, *pair) for pair in pairs] == pytest.approx(scores.log_softmax(0).tolist())


@pytest.mark.parametrize("config", LINKS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_gradients_of_rules_are_finite(config: LinkConfig, depth: int) -> None:
    tree, rules = SupportTree(4, depth), network(config, depth)
    states = states_of(tree, 2).requires_grad_()
    chain, prefix = rules(states, torch.tensor([4, 2]))
    (chain[chain > -math.inf].sum() + prefix.sum()).backward()
    assert states.grad is not None
    assert bool(states.grad.isfinite().all())
    for name, weight in rules.named_parameters():
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name


@pytest.mark.parametrize("name", ["pcfg", "pcfg of depth 2"])
def test_log_prob_equals_enumeration(name: str) -> None:
    source = Padded(torch.tensor([[5]]), torch.tensor([1]))  # three main-chain nodes
    grammar = translation_distribution(made(name), source)
    assert isinstance(grammar, RHPCFG)
    for target in sentences(2, 3, 4):
        expected = oracle(grammar, 0).log_prob(target)
        found = grammar.log_prob(Padded.from_lists([target]))
        assert float(found) == pytest.approx(expected, abs=1e-10)


def test_canvas_and_tree_have_the_size_of_the_formula() -> None:
    ((hypothesis,),) = translated(made("pcfg of depth 2"), "viterbi", sentences(5))
    assert hypothesis.tree is not None
    assert hypothesis.tree.support == SupportTree(2 * 5 + 1, 2)  # C = λ·Lx + 1
    assert hypothesis.nodes == hypothesis.tree.nodes
    assert hypothesis.nodes[-1] == 2 * 5 * 4 + 2 - 1  # m - 1, m = λ·Lx·d + 2
    assert 1 in hypothesis.nodes


def test_bad_configs_are_named() -> None:
    with pytest.raises(ValueError, match="upsampling must be at least 1, got 0"):
        PCFGConfig(upsampling=0)
    with pytest.raises(ValueError, match="prefix_depth must be in 0 … 4, got 5"):
        PCFGConfig(prefix_depth=5)
    with pytest.raises(ValueError, match="heads must divide the width 64, got 7"):
        PCFGNetwork(PCFGConfig(LARGER, rules=LinkConfig(7)), 12)
