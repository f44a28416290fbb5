import math
from collections import Counter

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close

from pcfgnat.structures import DAG, RHPCFG, Padded, RuleScores, SupportTree
from pcfgnat.structures.ngrams import (
    candidate_counts,
    ngram_score,
    rule_usage,
    window_counts,
    window_repeats,
)
from tests.support.grammars import random_grammar, random_scores, random_target
from tests.support.lattices import random_dag
from tests.support.ngrams import EnumeratedGrammar, Leaves, all_windows, dag_leaves, grammar_of, normalised

# depth, the chain lengths of a ragged batch, and the lengths of its targets
BATCHES = [
    (0, [6, 2, 4], [5, 3, 2]),
    (1, [5, 2, 3], [6, 2, 4]),
    (2, [4, 2, 3], [7, 2, 3]),
    (3, [3, 2], [8, 4]),
]


def leaves_of(depth: int, chain_lengths: list[int], scale: float = 1.0, seed: int = 0) -> Leaves:
    tree = SupportTree(max(chain_lengths), depth)
    scores = random_scores(tree, chain_lengths, vocabulary=3, scale=scale, seed=seed)
    return scores.chain, scores.prefix, scores.emit


def with_gradients(leaves: Leaves) -> Leaves:
    chain, prefix, emit = (leaf.clone().requires_grad_() for leaf in leaves)
    return chain, prefix, emit


def enumerated(depth: int, chain_lengths: list[int], leaves: Leaves) -> list[EnumeratedGrammar]:
    exact = normalised(SupportTree(max(chain_lengths), depth), leaves)
    return [
        EnumeratedGrammar(SupportTree(size, depth), exact, index) for index, size in enumerate(chain_lengths)
    ]


def gradients(value: Tensor, leaves: Leaves) -> tuple[Tensor, ...]:
    """Gradients of a sum with weights that are all different."""
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    return torch.autograd.grad((value * weights).sum(), leaves, materialize_grads=True)


def assert_same(mine: Tensor, mine_leaves: Leaves, exact: Tensor, exact_leaves: Leaves) -> None:
    """Equal values, and equal gradients for all three tensors."""
    assert_close(mine, exact, rtol=0, atol=1e-10)
    pairs = zip(gradients(mine, mine_leaves), gradients(exact, exact_leaves), strict=True)
    for of_mine, of_exact in pairs:
        assert_close(of_mine, of_exact.nan_to_num(), rtol=0, atol=1e-10)


def padded(rows: list[Tensor], width: int) -> Tensor:
    return torch.stack([torch.cat([row, row.new_zeros(width - len(row))]) for row in rows])


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("depth", "chain_lengths", "lengths"), BATCHES)
def test_counts_equal_enumeration(
    depth: int, chain_lengths: list[int], lengths: list[int], n: int, scale: float
) -> None:
    target = random_target(lengths, vocabulary=3, seed=n)
    mine, exact = (with_gradients(leaves_of(depth, chain_lengths, scale)) for _ in range(2))
    counts = grammar_of(SupportTree(max(chain_lengths), depth), mine, chain_lengths).expected_ngrams(
        target, n
    )
    expected = [
        grammar.windows(ids, n)
        for grammar, ids in zip(enumerated(depth, chain_lengths, exact), target.to_lists(), strict=True)
    ]
    assert counts.shape == (len(lengths), target.ids.shape[1] - n + 1)
    assert_same(counts, mine, padded(expected, counts.shape[1]), exact)


@pytest.mark.parametrize(("depth", "size"), [(0, 7), (1, 5), (2, 4)])
@pytest.mark.parametrize("n", [4, 5])
def test_wider_windows_equal_enumeration(depth: int, size: int, n: int) -> None:
    target = random_target([7], vocabulary=3, seed=n)
    leaves = leaves_of(depth, [size])
    counts = grammar_of(SupportTree(size, depth), leaves, [size]).expected_ngrams(target, n)
    (grammar,) = enumerated(depth, [size], leaves)
    assert_close(counts[0], grammar.windows(target.to_lists()[0], n), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("depth", "chain_lengths", "_lengths"), BATCHES)
def test_length_equals_enumeration(depth: int, chain_lengths: list[int], _lengths: list[int]) -> None:
    mine, exact = (with_gradients(leaves_of(depth, chain_lengths)) for _ in range(2))
    lengths = grammar_of(SupportTree(max(chain_lengths), depth), mine, chain_lengths).expected_length()
    expected = torch.stack([grammar.length() for grammar in enumerated(depth, chain_lengths, exact)])
    assert_same(lengths, mine, expected, exact)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_lattices_equal_enumeration(n: int) -> None:
    sizes = [6, 2, 4]
    lattice, target = random_dag(sizes, vocabulary=3), random_target([5, 3, 2], vocabulary=3)
    counts = lattice.expected_ngrams(target, n)
    grammars = [
        EnumeratedGrammar(SupportTree(size, 0), dag_leaves(lattice), i) for i, size in enumerate([6, 2, 4])
    ]
    rows = [grammar.windows(ids, n) for grammar, ids in zip(grammars, target.to_lists(), strict=True)]
    assert_close(counts, padded(rows, counts.shape[1]), rtol=0, atol=1e-12)
    expected = torch.stack([grammar.length() for grammar in grammars])
    assert_close(lattice.expected_length(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("depth", "chain_lengths", "lengths"), BATCHES)
def test_score_equals_enumeration(depth: int, chain_lengths: list[int], lengths: list[int], n: int) -> None:
    target = random_target([length + 2 for length in lengths], vocabulary=2, seed=n)  # with repeats
    mine, exact = (with_gradients(leaves_of(depth, chain_lengths)) for _ in range(2))
    found = ngram_score(grammar_of(SupportTree(max(chain_lengths), depth), mine, chain_lengths), target, n)
    scores, matches = [], []
    for grammar, ids in zip(enumerated(depth, chain_lengths, exact), target.to_lists(), strict=True):
        length, matched = grammar.length(), grammar.matched(ids, n)
        windows = torch.stack(
            [chance * max(len(nodes) - n + 1, 0) for chance, nodes in grammar.structures]
        ).sum()
        precision = matched / windows if float(windows.detach()) > 1e-9 else matched
        scores.append(precision * torch.clamp(1 - len(ids) / length, max=0).exp())
        matches.append(matched)
    assert_same(found.score, mine, torch.stack(scores), exact)
    assert_close(found.matched, torch.stack(matches), rtol=0, atol=1e-12)
    assert (found.brevity <= 1).all()


def test_a_grammar_of_two_nodes_has_no_trigrams() -> None:
    leaves = with_gradients(leaves_of(1, [2]))
    found = ngram_score(grammar_of(SupportTree(2, 1), leaves, [2]), random_target([4], vocabulary=3), 3)
    assert found.score.tolist() == [0.0]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients(found.score, leaves))


@pytest.mark.parametrize(("depth", "chain_lengths", "_lengths"), BATCHES)
def test_counts_add_up(depth: int, chain_lengths: list[int], _lengths: list[int]) -> None:
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=3)
    batch = len(chain_lengths)
    single = grammar.expected_ngrams(Padded.from_lists([[0, 1, 2]] * batch), 1)
    assert_close(single.sum(1), grammar.expected_length())
    pairs = torch.stack(
        [grammar.expected_ngrams(Padded.from_lists([pair] * batch), 2)[:, 0] for pair in all_windows(3, 2)], 1
    ).view(batch, 3, 3)
    assert_close(
        pairs.sum(1), single - grammar.scores.emit[:, 1].exp()
    )  # every token but bos has one before it
    assert_close(pairs.sum((1, 2)), grammar.expected_length() - 1)


def test_a_certain_grammar_has_plain_counts() -> None:
    ids = [0, 1, 2, 1, 2, 1]
    chain = torch.full((1, 6, 1, 6), -math.inf)
    for k in range(5):
        chain[0, k, 0, k + 1] = 0.0
    emit = torch.full((1, 7, 3), -math.inf)
    emit[0, range(1, 7), ids] = 0.0
    certain = RHPCFG(RuleScores(chain, torch.zeros(1, 6, 0), emit), torch.tensor([6]))
    for n in (1, 2, 3):
        own = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
        counts = certain.expected_ngrams(Padded.from_lists([ids]), n)[0].tolist()
        assert counts == [Counter(own)[window] for window in own]
        found = ngram_score(certain, Padded.from_lists([ids]), n)
        assert found.score.tolist() == [1.0]
    assert certain.expected_length().tolist() == [6.0]


def test_ties_have_no_gradient() -> None:
    """A certain model is at count = reference and length = target to the last bit."""
    emit = torch.zeros(1, 3, 1, dtype=torch.float64, requires_grad=True)
    transitions = torch.tensor(
        [[[0.0, 0.0, -math.inf], [0, 0, 0.0], [0, 0, 0]]], dtype=torch.float64
    ).requires_grad_()
    found = ngram_score(DAG(transitions, emit, torch.tensor([3])), Padded.from_lists([[0, 0, 0]]), 1)
    assert found.score.tolist() == [1.0]
    (gradient,) = torch.autograd.grad(found.matched.sum(), emit, retain_graph=True)
    assert gradient.abs().max() == 0
    (gradient,) = torch.autograd.grad(found.brevity.sum(), transitions)
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("depth", "chain_lengths", "lengths"), BATCHES)
def test_padding_may_hold_anything(depth: int, chain_lengths: list[int], lengths: list[int], n: int) -> None:
    tree, target = SupportTree(max(chain_lengths), depth), random_target(lengths, vocabulary=3)
    clean = random_scores(tree, chain_lengths, vocabulary=3)
    legal = rule_usage(tree, clean.chain, clean.prefix, torch.tensor(chain_lengths))
    poisoned = (
        clean.chain.masked_fill(clean.chain == -math.inf, math.nan).requires_grad_(),
        clean.prefix.masked_fill(legal.prefix == 0, math.nan).requires_grad_(),
        clean.emit.masked_fill(~legal.emitting.unsqueeze(2), math.nan).requires_grad_(),
    )
    assert any(bool(leaf.isnan().any()) for leaf in poisoned)
    strange = torch.where(target.mask, target.ids, 10**9)
    grammar = RHPCFG(RuleScores(*poisoned), torch.tensor(chain_lengths))
    counts = grammar.expected_ngrams(Padded(strange, target.lengths), n)
    alone = [
        random_alone(clean, index, size).expected_ngrams(Padded.from_lists([ids]), n)[0]
        for index, (size, ids) in enumerate(zip(chain_lengths, target.to_lists(), strict=True))
    ]
    assert_close(counts, padded(alone, counts.shape[1]), rtol=0, atol=1e-14)
    for gradient in gradients(ngram_score(grammar, Padded(strange, target.lengths), n).score, poisoned):
        assert gradient.isfinite().all()


def random_alone(scores: RuleScores, index: int, size: int) -> RHPCFG:
    """One sentence without padding."""
    nodes = SupportTree(size, scores.tree.prefix_depth).num_nodes
    row = slice(index, index + 1)
    own = RuleScores(scores.chain[row, :size, :, :size], scores.prefix[row, :size], scores.emit[row, :nodes])
    return RHPCFG(own, torch.tensor([size]))


def test_single_precision_loses_little() -> None:
    tree = SupportTree(101, 1)
    exact = random_grammar(tree, [101, 60], vocabulary=50, scale=6.0)
    rough = RHPCFG(
        RuleScores(exact.scores.chain.float(), exact.scores.prefix.float(), exact.scores.emit.float()),
        exact.chain_lengths,
    )
    target = random_target([30, 20], vocabulary=50)
    assert_close(rough.expected_length().double(), exact.expected_length(), rtol=1e-5, atol=0)
    for n in (1, 2, 3):
        counts = rough.expected_ngrams(target, n)
        assert counts.dtype == torch.float32
        assert_close(counts.double(), exact.expected_ngrams(target, n), rtol=1e-4, atol=1e-6)


def test_half_precision_is_computed_in_single() -> None:
    grammar = random_grammar(SupportTree(6, 1))
    half = RHPCFG(
        RuleScores(*(t.half() for t in (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit))),
        grammar.chain_lengths,
    )
    assert half.expected_length().dtype == torch.float32
    assert half.expected_ngrams(random_target([4]), 2).dtype == torch.float32


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_nothing_waits_for_the_device_and_nothing_is_cubic(depth: int, n: int) -> None:
    """Fake tensors hold no numbers, so reading one on the host fails; their shapes are those of true ones."""
    C, N, tree = 40, 24, SupportTree(40, depth)
    largest = 0
    with FakeTensorMode():
        chain = torch.empty(2, C, tree.block, C, requires_grad=True)
        prefix = torch.empty(2, C, len(tree.prefix_rules()), requires_grad=True)
        tokens = torch.empty(2, tree.num_nodes, N, requires_grad=True)
        usage = rule_usage(tree, chain, prefix, torch.empty(2, dtype=torch.int64))

        def keep(saved: Tensor) -> Tensor:
            nonlocal largest
            largest = max(largest, saved.numel())
            return saved

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            counts = window_counts(usage, tokens, n)
        found = torch.autograd.grad(counts.sum(), (chain, prefix, tokens), materialize_grads=True)
        assert [gradient.shape for gradient in found] == [chain.shape, prefix.shape, tokens.shape]
        assert counts.shape == (2, N - n + 1)
    assert largest <= 2 * C * tree.block * max(C, N + 1)


def test_repeats_are_counted_inside_the_sentence() -> None:
    target = Padded(torch.tensor([[1, 2, 1, 2, 1], [3, 3, 3, 3, 3]]), torch.tensor([5, 2]))
    assert window_repeats(target, 1).tolist() == [[3, 2, 3, 2, 3], [2, 2, 1, 1, 1]]
    assert window_repeats(target, 2).tolist() == [[2, 2, 2, 2], [1, 1, 1, 1]]
    assert window_repeats(target, 6).tolist() == [[], []]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_candidates_of_any_length_share_one_pass(n: int) -> None:
    chain_lengths = [5, 3]
    grammar = random_grammar(SupportTree(5, 1), chain_lengths, vocabulary=3)
    candidates = [[[0, 1, 2, 0, 1], [], [1], [2, 0, 1, 1]], [[2, 2, 2], [0, 1]]]
    counts = candidate_counts(grammar, candidates, n)
    leaves = (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
    exact = enumerated(1, chain_lengths, leaves)
    for own, found, sentence in zip(candidates, counts, exact, strict=True):
        for candidate, row in zip(own, found, strict=True):
            windows = [candidate[i : i + n] for i in range(len(candidate) - n + 1)]
            expected = [float(sentence.count(window, inner=True)) for window in windows]
            assert row.tolist() == pytest.approx(expected, abs=1e-12)


def test_no_windows_are_no_counts() -> None:
    grammar = random_grammar(SupportTree(4, 1))
    assert grammar.expected_ngrams(random_target([2]), 3).shape == (1, 0)
    assert ngram_score(grammar, random_target([2]), 3).score.tolist() == [0.0]


def test_no_sentences_are_no_counts() -> None:
    scores = random_scores(SupportTree(4, 1), [4])
    none = RHPCFG(RuleScores(scores.chain[:0], scores.prefix[:0], scores.emit[:0]), torch.zeros(0).long())
    target = Padded(torch.zeros(0, 5).long(), torch.zeros(0).long())
    assert none.expected_ngrams(target, 3).shape == (0, 3)
    assert none.expected_length().shape == (0,)


@pytest.mark.parametrize("n", [0, -1])
def test_n_must_be_positive(n: int) -> None:
    grammar = random_grammar(SupportTree(4, 1))
    with pytest.raises(ValueError, match=f"n must be at least 1, got {n}"):
        grammar.expected_ngrams(random_target([3]), n)
    with pytest.raises(ValueError, match=f"n must be 1, 2 or 3, got {n}"):
        ngram_score(grammar, random_target([3]), n)
