"""What users of grammars expect beside log P: samples, normalisation, divergences, clear errors."""

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.structures import CTC, DAG, RHPCFG, Independent, Padded, RuleScores, SupportTree
from tests.support.grammars import oracle, random_grammar, random_scores, random_target
from tests.support.lattices import random_dag
from tests.support.oracle import derivations, log_sum
from tests.support.unchecked import shapes_unchecked

TREES = [SupportTree(4, 0), SupportTree(4, 1), SupportTree(3, 2)]


def unnormalised(tree: SupportTree, lengths: list[int], seed: int = 0, vocabulary: int = 2) -> RHPCFG:
    """Weights that add up to nothing in particular; one rule and one token are impossible."""
    generator = torch.Generator().manual_seed(seed)
    shapes = RuleScores.zeros(tree, len(lengths), vocabulary, torch.float64)
    chain, prefix, emit = (
        torch.randn(part.shape, generator=generator, dtype=torch.float64)
        for part in (shapes.chain, shapes.prefix, shapes.emit)
    )
    chain[0, 0, 0, 1] = -math.inf
    emit[:, 2, 0] = -math.inf
    return RHPCFG(RuleScores(chain, prefix, emit), torch.tensor(lengths))


def outcomes(grammar: RHPCFG, index: int) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
    """Log-weight of every (symbols, tokens) of a sentence's grammar, enumerated."""
    found, tokens = oracle(grammar, index), range(grammar.scores.emit.shape[2])
    return {
        (d.nodes, ids): found.score(d, list(ids))
        for d in derivations(grammar.support(index))
        for ids in product(tokens, repeat=len(d.nodes))
    }


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_the_normaliser_is_the_sum_of_all_weights(tree: SupportTree) -> None:
    grammar = unnormalised(tree, [tree.chain_length, tree.chain_length - 1])
    expected = [log_sum(list(outcomes(grammar, b).values())) for b in range(2)]
    assert_close(grammar.log_normaliser(), torch.tensor(expected, dtype=torch.float64))
    assert not grammar.is_normalised()


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_normalising_keeps_the_share_of_every_derivation(tree: SupportTree) -> None:
    grammar = unnormalised(tree, [tree.chain_length, tree.chain_length - 1])
    normal = grammar.normalised()
    assert normal.is_normalised()
    assert_close(normal.log_normaliser(), torch.zeros(2, dtype=torch.float64))
    for b in range(2):
        before, after = outcomes(grammar, b), outcomes(normal, b)
        total = log_sum(list(before.values()))
        assert before.keys() == after.keys()
        assert all(after[key] == pytest.approx(before[key] - total, abs=1e-12) for key in before)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_padding_may_hold_anything(tree: SupportTree) -> None:
    clean = unnormalised(tree, [tree.chain_length - 1])
    scores = clean.scores
    chain, prefix, emit = scores.chain.clone(), scores.prefix.clone(), scores.emit.clone()
    chain[:, -1] = chain[:, :, :, -1] = chain[:, 0, 1:] = math.nan
    prefix[:, -2:] = prefix[:, 0] = math.nan
    emit[:, 0] = emit[:, -1] = math.nan
    dirty = RHPCFG(RuleScores(chain, prefix, emit), clean.chain_lengths)
    assert_close(dirty.log_normaliser(), clean.log_normaliser())
    assert_close(dirty.kl_divergence(random_like(clean)), clean.kl_divergence(random_like(clean)))


def random_like(grammar: RHPCFG) -> RHPCFG:
    lengths, vocabulary = grammar.chain_lengths.tolist(), grammar.scores.emit.shape[2]
    return RHPCFG(random_scores(grammar.tree, lengths, vocabulary, seed=5), grammar.chain_lengths)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_cross_entropy_and_divergence_equal_enumeration(tree: SupportTree) -> None:
    possible = random_grammar(tree, [tree.chain_length, tree.chain_length - 1], vocabulary=2)
    for p, q in ((unnormalised(tree, possible.chain_lengths.tolist()), possible), (possible, possible)):
        crossed, divergence, entropy = p.cross_entropy(q), p.kl_divergence(q), p.entropy()
        for b in range(2):
            mine, theirs = outcomes(p, b), outcomes(q, b)
            total, other = log_sum(list(mine.values())), log_sum(list(theirs.values()))
            shares = {key: math.exp(score - total) for key, score in mine.items()}
            expected = -sum(share * (theirs[key] - other) for key, share in shares.items() if share)
            own = -sum(share * (mine[key] - total) for key, share in shares.items() if share)
            assert float(crossed[b]) == pytest.approx(expected, abs=1e-11)
            assert float(entropy[b]) == pytest.approx(own, abs=1e-11)
            assert float(divergence[b]) == pytest.approx(expected - own, abs=1e-11)


def test_divergence_is_infinite_where_the_other_is_impossible() -> None:
    tree = SupportTree(4, 1)
    possible, impossible = random_grammar(tree, [4], vocabulary=2), unnormalised(tree, [4])
    assert float(possible.kl_divergence(impossible)) == math.inf


def test_divergence_is_differentiable_in_both_grammars() -> None:
    tree = SupportTree(3, 2)
    lengths, first, second = (
        torch.tensor([3]),
        random_scores(tree, [3], 2),
        random_scores(tree, [3], 2, seed=1),
    )

    def divergence(*leaves: Tensor) -> Tensor:
        p, q = RHPCFG(RuleScores(*leaves[:3]), lengths), RHPCFG(RuleScores(*leaves[3:]), lengths)
        return p.kl_divergence(q)

    leaves = [getattr(s, name) for s in (first, second) for name in ("chain", "prefix", "emit")]
    given = [leaf.clamp(min=-4.0).requires_grad_() for leaf in leaves]
    assert torch.autograd.gradcheck(divergence, given, fast_mode=True)


def test_grammars_of_other_trees_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="grammars must share support trees and vocabulary, got RHPCFG"):
        random_grammar(SupportTree(4, 1)).kl_divergence(random_grammar(SupportTree(5, 1)))


def test_samples_of_unnormalised_weights_have_their_shares() -> None:
    """Node by node the first rule would be drawn half the time, though little weight lies behind it."""
    grammar = unnormalised(SupportTree(4, 1), [4], seed=3)
    check_frequencies(
        grammar, Counter(h.nodes for h in grammar.samples(1000, torch.Generator().manual_seed(0))[0])
    )


def test_paths_of_an_unnormalised_graph_have_their_shares() -> None:
    lattice = random_dag([5], vocabulary=2)
    bent = DAG(lattice.transitions + torch.arange(5.0), lattice.emit * 3.0, lattice.num_nodes)
    copies = DAG(
        bent.transitions.expand(1000, -1, -1), bent.emit.expand(1000, -1, -1), torch.full((1000,), 5)
    )
    drawn = Counter(tuple(v + 1 for v in h.nodes) for h in copies.sample(torch.Generator().manual_seed(0)))
    check_frequencies(bent.grammar(), drawn)


def test_a_grammar_without_a_derivation_names_its_dead_end() -> None:
    grammar = random_grammar(SupportTree(4, 1), [4])
    chain = grammar.scores.chain.clone()
    chain[0, 0, 0, 2:] = -math.inf  # from the root to node 1 only
    chain[0, 1] = -math.inf
    stuck = RHPCFG(RuleScores(chain, grammar.scores.prefix, grammar.scores.emit), grammar.chain_lengths)
    assert stuck.log_normaliser().tolist() == [-math.inf]
    with pytest.raises(
        ValueError, match="sentence 0: main-chain node 1 must have a rule of non-zero probability"
    ):
        stuck.sample()


def test_a_dead_end_beside_a_way_out_is_never_drawn() -> None:
    grammar = random_grammar(SupportTree(4, 0), [4])
    chain = grammar.scores.chain.clone()
    chain[0, 1] = -math.inf
    partly = RHPCFG(RuleScores(chain, grammar.scores.prefix, grammar.scores.emit), grammar.chain_lengths)
    drawn = partly.samples(100, torch.Generator().manual_seed(0))[0]
    assert {hypothesis.nodes for hypothesis in drawn} == {(1, 4), (1, 3, 4)}


def check_frequencies(grammar: RHPCFG, drawn: Counter[tuple[int, ...]]) -> None:
    """Five standard deviations at most from the share of each set of symbols."""
    weights = outcomes(grammar, 0)
    total, count = log_sum(list(weights.values())), drawn.total()
    shares: Counter[tuple[int, ...]] = Counter()
    for (nodes, _), score in weights.items():
        shares[nodes] += math.exp(score - total)  # type: ignore[assignment]
    assert drawn.keys() <= shares.keys()
    for nodes, share in shares.items():
        assert abs(drawn[nodes] / count - share) <= 5 * math.sqrt(share * (1 - share) / count)


def test_posterior_samples_are_independent_of_each_other() -> None:
    grammar, target = random_grammar(SupportTree(5, 1), [5]), random_target([4])
    posterior = grammar.posterior(target)
    drawn = posterior.samples(500, torch.Generator().manual_seed(0))
    assert len(drawn) == 500
    counts = Counter(alignment.nodes(0) for alignment in drawn)
    found = oracle(grammar, 0).of(target.to_lists()[0])
    total = log_sum([score for score, _ in found])
    for score, derivation in found:
        share = math.exp(score - total)
        deviation = math.sqrt(share * (1 - share) / 500)
        assert abs(counts[derivation.nodes] / 500 - share) <= 5 * deviation


def test_rule_marginals_equal_enumeration() -> None:
    tree = SupportTree(4, 2)
    grammar, target = random_grammar(tree, [4]), random_target([6])
    found = grammar.posterior(target).rule_marginals()
    expected = oracle(grammar, 0).rule_marginals(target.to_lists()[0])
    for (node, left, right), chance in expected.items():
        k, offset = tree.locate(node)
        start = node - offset
        if offset == tree.block:
            entry = found.chain[0, k, left - start if left else 0, (right - 1) // tree.block]
        else:
            rule = (offset, left - start if left else 0, right - start)
            entry = found.prefix[0, k, [tuple(r) for r in tree.prefix_rules()].index(rule)]
        assert float(entry.exp()) == pytest.approx(chance, abs=1e-12)
    total = sum(expected.values())
    assert float(found.chain.exp().sum() + found.prefix.exp().sum()) == pytest.approx(total, abs=1e-10)


def test_transition_marginals_are_those_of_the_grammar() -> None:
    lattice, target = random_dag([6, 4]), random_target([4, 3])
    found = lattice.posterior(target).transition_marginals()
    assert_close(found, lattice.grammar().posterior(target).rule_marginals().chain[:, :, 0])
    assert_close(lattice.grammar().log_prob(target), lattice.log_prob(target))


def test_zeros_count_and_random_is_normalised() -> None:
    tree = SupportTree(5, 1)
    zeros = RHPCFG(RuleScores.zeros(tree, 1, 3, torch.float64), torch.tensor([5]))
    assert math.exp(zeros.log_prob(random_target([4], 3))) == pytest.approx(tree.num_derivations(4))
    random = RuleScores.random(tree, 2, 3, torch.Generator().manual_seed(0))
    assert RHPCFG(random, torch.tensor([5, 5])).is_normalised()
    again = RuleScores.random(tree, 2, 3, torch.Generator().manual_seed(0))
    assert again.emit.equal(random.emit)
    ragged = RuleScores.zeros(SupportTree(5, 2), 2, 3).log_softmax(torch.tensor([5, 3]))
    assert RHPCFG(ragged, torch.tensor([5, 3])).is_normalised()
    assert not RHPCFG(ragged, torch.tensor([5, 4])).is_normalised()


def test_values_describe_themselves_in_a_line() -> None:
    grammar, target = random_grammar(SupportTree(5, 1), [5, 4]), random_target([3, 4])
    for value, expected in (
        (
            grammar.scores,
            "RuleScores(2 grammars of 10 symbols, chain_length=5, prefix_depth=1, vocabulary=5,",
        ),
        (grammar, "RHPCFG(RuleScores(2 grammars"),
        (grammar.posterior(target), "RHPCFGPosterior(RHPCFG("),
        (target, "Padded(2 sentences of up to 4 tokens, cpu)"),
        (random_dag([4, 3]), "DAG(2 graphs of up to 4 vertices, vocabulary=5, torch.float64, cpu)"),
        (random_dag([4]).posterior(random_target([3])), "DAGPosterior(DAG(1 graphs"),
        (
            CTC(torch.zeros(1, 3, 4), torch.tensor([3]), 0),
            "CTC(1 canvases of up to 3 slots,",
        ),
        (Independent(torch.zeros(1, 3, 4), torch.tensor([3])), "Independent(1 sentences of up to 3 tokens"),
    ):
        assert repr(value).startswith(expected)
        assert "\n" not in repr(value)


@pytest.mark.parametrize(
    ("chain", "emit", "message"),
    [
        ([[[[0.0]]]], None, "chain must be a tensor, got list"),
        (np.zeros((1, 3, 1, 3)), None, "chain must be a tensor, got numpy.ndarray"),
        (
            torch.zeros(1, 3, 1, 3, dtype=torch.int64),
            None,
            "chain must be a floating-point tensor, got torch.int64",
        ),
        (None, torch.zeros(1, 4, 2).double(), "emit must be torch.float32 like chain, got torch.float64"),
    ],
)
@shapes_unchecked()
def test_wrong_arguments_are_named(chain: Any, emit: Tensor | None, message: str) -> None:
    good = RuleScores.zeros(SupportTree(3, 0), 1, 2)
    with pytest.raises(TypeError, match=message):
        RuleScores(good.chain if chain is None else chain, good.prefix, good.emit if emit is None else emit)


@shapes_unchecked()
def test_ids_must_be_a_tensor() -> None:
    with pytest.raises(TypeError, match=r"ids must be a tensor, got list; Padded.from_lists takes lists"):
        Padded([[1]], torch.tensor([1]))  # type: ignore[arg-type]


@shapes_unchecked()
def test_a_target_must_be_padded() -> None:
    scores, sizes = torch.zeros(1, 3, 4), torch.tensor([3])
    grammar = RHPCFG(RuleScores.zeros(SupportTree(3, 0), 1, 4), sizes)
    graph = DAG(torch.zeros(1, 3, 3), scores, sizes)
    for one in (grammar, graph, CTC(scores, sizes, 0), Independent(scores, sizes)):
        for wrong, kind in (([[1, 2]], "list"), (torch.tensor([[1, 2]]), "torch.Tensor")):
            with pytest.raises(TypeError, match=f"target must be Padded, got {kind}; Padded.from_lists"):
                one.log_prob(wrong)  # type: ignore[arg-type]
