"""The grammar against the enumeration of every derivation, on both implementations."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pcfgnat.structures import RHPCFG, Padded, RuleScores, Search, SupportTree, backend
from tests.structures.conftest import BACKENDS
from tests.support.grammars import oracle, random_grammar, random_scores, random_target

SIZES = [(5, 0), (5, 1), (4, 2), (3, 3)]


def ragged(chain_length: int, depth: int, scale: float, seed: int = 0) -> tuple[RHPCFG, Padded]:
    """Three sentences of different chain and target lengths, all derivable."""
    tree = SupportTree(chain_length, depth)
    chain_lengths = [chain_length, max(2, chain_length - 1), chain_length]
    grammar = random_grammar(tree, chain_lengths, scale=scale, seed=seed)
    longest = [SupportTree(length, depth).max_length for length in chain_lengths]
    return grammar, random_target([min(longest[0], 5), min(longest[1], 4), 2], seed=seed)


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize(("chain_length", "depth"), SIZES)
class TestAgainstEnumeration:
    def test_log_prob(self, either_backend: str, chain_length: int, depth: int, scale: float) -> None:
        grammar, target = ragged(chain_length, depth, scale)
        expected = [oracle(grammar, b).log_prob(ids) for b, ids in enumerate(target.to_lists())]
        torch.testing.assert_close(grammar.log_prob(target), torch.tensor(expected, dtype=torch.float64))

    def test_argmax_and_tree(self, either_backend: str, chain_length: int, depth: int, scale: float) -> None:
        grammar, target = ragged(chain_length, depth, scale)
        posterior = grammar.posterior(target)
        alignment, trees = posterior.argmax(), posterior.best_tree()
        for b, ids in enumerate(target.to_lists()):
            score, derivation = oracle(grammar, b).of(ids)[0]
            assert float(alignment.score[b]) == pytest.approx(score, abs=1e-9)
            position = [-1] * grammar.tree.num_nodes
            for i, node in enumerate(derivation.nodes):
                position[node] = i
            assert alignment.position[b].tolist() == position
            tree = trees[b]
            assert tree is not None
            assert tree.nodes == derivation.nodes
            assert tree.tokens == tuple(ids)
            assert tree.log_prob == pytest.approx(score, abs=1e-9)
            used = {
                (tree.nodes[i], *(tree.nodes[c] if c is not None else 0 for c in pair))
                for i, pair in enumerate(tree.children)
                if pair != (None, None)
            }
            assert used == set(derivation.rules)

    def test_marginals_and_all_gradients(
        self, either_backend: str, chain_length: int, depth: int, scale: float
    ) -> None:
        grammar, target = ragged(chain_length, depth, scale)
        marginals = grammar.posterior(target).marginals()
        gradients = log_prob_gradients(grammar, target)
        emitted, rules = (
            torch.zeros_like(gradients.emit),
            RuleScores(*(torch.zeros_like(g) for g in (gradients.chain, gradients.prefix, gradients.emit))),
        )
        for b, ids in enumerate(target.to_lists()):
            reference = oracle(grammar, b)
            for node, row in enumerate(reference.marginals(ids)):
                padded = [*row, *[0.0] * (target.ids.shape[1] - len(row))]
                torch.testing.assert_close(marginals[b, node].tolist(), padded, atol=1e-9, rtol=1e-9)
                for token, mass in zip(ids, row, strict=True):
                    emitted[b, node, token] += mass
            for (node, left, right), mass in reference.rule_marginals(ids).items():
                add_rule(rules, grammar.support(b), b, (node, left, right), mass)
        torch.testing.assert_close(gradients.emit, emitted, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(gradients.chain, rules.chain, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(gradients.prefix, rules.prefix, atol=1e-9, rtol=1e-9)

    def test_k_best(self, either_backend: str, chain_length: int, depth: int, scale: float) -> None:
        grammar, target = ragged(chain_length, depth, scale)
        posterior = grammar.posterior(target)
        best = posterior.k_best(4)
        for b, ids in enumerate(target.to_lists()):
            expected = oracle(grammar, b).of(ids)
            for rank, alignment in enumerate(best):
                tree = posterior.trees(alignment)[b]
                if rank < len(expected):
                    assert float(alignment.score[b]) == pytest.approx(expected[rank][0], abs=1e-9)
                    assert tree is not None
                    assert tree.log_prob == pytest.approx(expected[rank][0], abs=1e-9)
                else:
                    assert float(alignment.score[b]) == -math.inf
                    assert tree is None
            found = {alignment.nodes(b) for alignment in best[: len(expected)]}
            assert len(found) == min(4, len(expected))

    def test_entropy_and_count(
        self, either_backend: str, chain_length: int, depth: int, scale: float
    ) -> None:
        grammar, target = ragged(chain_length, depth, scale)
        entropy, counts = grammar.posterior(target).entropy(), grammar.num_derivations(target)
        for b, ids in enumerate(target.to_lists()):
            assert float(entropy[b]) == pytest.approx(oracle(grammar, b).entropy(ids), abs=1e-9)
            assert (
                int(counts[b])
                == grammar.support(b).num_derivations(len(ids))
                == len(oracle(grammar, b).of(ids))
            )

    def test_viterbi_of_every_length(
        self, either_backend: str, chain_length: int, depth: int, scale: float
    ) -> None:
        grammar, _ = ragged(chain_length, depth, scale)
        arrays = grammar.grammars(special=None)
        token_scores, tokens = arrays.emissions.everywhere()
        table = arrays.tabulate(token_scores, max(arrays.max_lengths))
        for length in range(table.scores.shape[1]):
            for b in range(3):
                expected = oracle(grammar, b).best_of_length(length)
                if expected is None:
                    assert float(table.scores[b, length]) == -math.inf
                    continue
                assert float(table.scores[b, length]) == pytest.approx(expected[0], abs=1e-9)
        for b in range(3):
            longest = grammar.support(b).max_length
            lengths = [min(longest, grammar.support(i).max_length) for i in range(3)]
            expected = oracle(grammar, b).best_of_length(lengths[b])
            assert expected is not None
            assert table.nodes(lengths)[b] == expected[1].nodes
        assert torch.equal(torch.from_numpy(tokens), grammar.scores.emit.argmax(-1))

    @pytest.mark.parametrize("penalty", [0.0, 1.0, 1.5])
    def test_viterbi_picks_the_best_length(
        self, either_backend: str, chain_length: int, depth: int, scale: float, penalty: float
    ) -> None:
        grammar, _ = ragged(chain_length, depth, scale)
        limit = min(6, grammar.tree.max_length)
        for b, found in enumerate(grammar.mode(Search("viterbi", max_length=limit, length_penalty=penalty))):
            options = [(oracle(grammar, b).best_of_length(n), n) for n in range(2, limit + 1)]
            best = max(option[0] / n**penalty for option, n in options if option is not None)
            assert found.normalised_score(penalty) == pytest.approx(best, abs=1e-9)
            assert len(found.ids) <= limit
            assert found.tree is not None
            assert found.score == pytest.approx(found.tree.log_prob)


def log_prob_gradients(grammar: RHPCFG, target: Padded) -> RuleScores:
    scores = [
        t.detach().clone().requires_grad_()
        for t in (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
    ]
    log_prob = RHPCFG(RuleScores(*scores), grammar.chain_lengths).log_prob(target)
    return RuleScores(*torch.autograd.grad(log_prob.sum(), scores, materialize_grads=True))


def add_rule(rules: RuleScores, tree: SupportTree, b: int, rule: tuple[int, int, int], mass: float) -> None:
    """Add to the entry of a rule, by the index conventions of RuleScores."""
    node, left, right = rule
    k, offset = tree.locate(node)
    j = tree.locate(left)[1] if left else 0
    if offset == tree.block:
        rules.chain[b, k, j, tree.locate(right)[0]] += mass
    else:
        number = tree.prefix_rules().index((offset, j, tree.locate(right)[1]))
        rules.prefix[b, k, number] += mass


@given(
    depth=st.integers(0, 3),
    chain_length=st.integers(2, 5),
    scale=st.sampled_from([0.0, 1.0, 5.0, 60.0]),
    holes=st.floats(0.0, 0.7),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60)
def test_both_implementations_agree_with_enumeration_on_any_grammar(
    depth: int, chain_length: int, scale: float, holes: float, seed: int
) -> None:
    """Rules and tokens of probability 0 included, so that many targets are impossible."""
    chain_length = min(chain_length, 3) if depth == 3 else chain_length
    tree = SupportTree(chain_length, depth)
    generator = torch.Generator().manual_seed(seed)
    whole = random_scores(tree, [chain_length], scale=scale, seed=seed)
    torn = [
        t.masked_fill(torch.rand(t.shape, generator=generator) < holes, -math.inf)
        for t in (whole.chain, whole.prefix, whole.emit)
    ]
    grammar = RHPCFG(RuleScores(*torn), torch.tensor([chain_length]))
    target = random_target([2 + seed % max(1, min(tree.max_length, 6) - 1)], seed=seed)
    ids = target.to_lists()[0]
    reference = oracle(grammar, 0)
    found = reference.of(ids)
    for name in BACKENDS:
        with backend(name):
            posterior = grammar.posterior(target)
            assert float(posterior.log_partition[0]) == pytest.approx(
                reference.log_prob(ids), rel=1e-9, abs=1e-9
            )
            best = posterior.argmax()
            assert float(best.score[0]) == pytest.approx(
                found[0][0] if found else -math.inf, rel=1e-9, abs=1e-9
            )
            gradients = log_prob_gradients(grammar, target)
            marginals = posterior.marginals()[0]
            for tensor in (gradients.chain, gradients.prefix, gradients.emit, marginals):
                assert bool(tensor.isfinite().all())
            assert float(marginals.sum()) == pytest.approx(len(ids) if found else 0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("chain_length", "depth"), [(4, 0), (4, 1), (3, 2), pytest.param(3, 3, marks=pytest.mark.slow)]
)
def test_gradcheck(either_backend: str, chain_length: int, depth: int) -> None:
    tree = SupportTree(chain_length, depth)
    lengths = torch.tensor([chain_length, chain_length - 1])
    scores = random_scores(tree, lengths.tolist(), vocabulary=3)
    target = random_target([4 if depth else 3, 3 if chain_length > 3 else 2], vocabulary=3)
    # finite differences of -inf are not defined: only the legal rules vary
    legal = scores.chain > -math.inf
    free = (scores.chain[legal], scores.prefix, scores.emit)

    def log_prob(chain: Tensor, prefix: Tensor, emit: Tensor) -> Tensor:
        full = torch.full_like(scores.chain, -math.inf).masked_scatter(legal, chain)
        return RHPCFG(RuleScores(full, prefix, emit), lengths).log_prob(target)

    assert torch.autograd.gradcheck(log_prob, [t.clone().requires_grad_() for t in free])


def test_entropy_is_differentiable() -> None:
    tree = SupportTree(4, 1)
    scores = random_scores(tree, [4], vocabulary=3)
    target = random_target([4], vocabulary=3)

    def entropy(emit: Tensor) -> Tensor:
        return (
            RHPCFG(RuleScores(scores.chain, scores.prefix, emit), torch.tensor([4]))
            .posterior(target)
            .entropy()
        )

    assert torch.autograd.gradcheck(entropy, [scores.emit.clone().requires_grad_()])


@pytest.mark.parametrize(("chain_length", "depth"), [(4, 0), (3, 1), (3, 2)])
def test_total_probability_is_one(either_backend: str, chain_length: int, depth: int) -> None:
    tree = SupportTree(chain_length, depth)
    grammar = random_grammar(tree, vocabulary=2)
    total = 0.0
    for length in range(2, tree.max_length + 1):
        sentences = torch.cartesian_prod(*[torch.arange(2)] * length)
        batch = len(sentences)
        scores = RuleScores(
            *(
                t.expand(batch, *t.shape[1:])
                for t in (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
            )
        )
        many = RHPCFG(scores, torch.full((batch,), chain_length))
        total += float(many.log_prob(Padded(sentences, torch.full((batch,), length))).exp().sum())
    assert total == pytest.approx(1.0, abs=1e-12)


class TestInfeasibleTargets:
    def test_are_named_and_have_neither_probability_nor_gradient(self, either_backend: str) -> None:
        tree = SupportTree(3, 1)  # derives 2 to 4 tokens
        grammar = random_grammar(tree, [3, 3, 2, 3])
        target = random_target([5, 3, 3, 1])
        scores = [
            t.clone().requires_grad_()
            for t in (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit)
        ]
        log_prob = RHPCFG(RuleScores(*scores), grammar.chain_lengths).log_prob(target)
        assert (log_prob > -math.inf).tolist() == [False, True, False, False]
        gradients = torch.autograd.grad(log_prob[[0, 2, 3]].sum(), scores, materialize_grads=True)
        assert all(bool((gradient == 0).all()) for gradient in gradients)
        reasons = grammar.infeasible(target)
        assert list(reasons) == [0, 2, 3]
        assert reasons[0] == "5 tokens, but 3 main-chain nodes of depth 1 derive 2 to 4"
        assert reasons[3].startswith("1 tokens")
        posterior = grammar.posterior(target)
        assert posterior.feasible.tolist() == [False, True, False, False]
        for alignment in (posterior.argmax(), posterior.sample(), posterior.k_best(2)[0]):
            assert alignment.score[[0, 2, 3]].tolist() == [-math.inf] * 3
            assert alignment.position[[0, 2, 3]].max() == -1
        assert posterior.best_tree()[0] is None
        assert bool(posterior.marginals().isfinite().all())
        assert posterior.entropy()[[0, 2, 3]].tolist() == [0.0] * 3

    def test_impossible_by_its_scores(self, either_backend: str) -> None:
        grammar = random_grammar(SupportTree(4, 1))
        grammar.scores.emit[:, :, 2] = -math.inf
        target = Padded.from_lists([[0, 2, 1]])
        assert grammar.infeasible(target) == {0: "every derivation uses a rule or token of probability 0"}


def test_sampling_from_the_grammar_matches_its_probabilities() -> None:
    tree = SupportTree(3, 1)
    grammar = random_grammar(tree, vocabulary=2, seed=5)
    generator = torch.Generator().manual_seed(1)
    draws = 1200
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        found = grammar.sample(generator)[0]
        counts[found.ids] = counts.get(found.ids, 0) + 1
    assert found.tree is not None
    assert found.score == pytest.approx(found.tree.log_prob)
    assert grammar.sample()[0].tree is not None  # with torch's own generator
    for ids, count in counts.items():
        probability = math.exp(oracle(grammar, 0).log_prob(list(ids)))
        spread = math.sqrt(probability * (1 - probability) / draws)
        assert abs(count / draws - probability) < 4.5 * spread + 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chain": torch.zeros(1, 4, 2, 3)}, r"chain must have shape \(B, C, d, C\), got \(1, 4, 2, 3\)"),
        ({"chain": torch.zeros(1, 4, 3, 4)}, "d must be a power of two, got 3"),
        ({"prefix": torch.zeros(1, 4, 1)}, r"prefix must have shape \(1, 4, 0\), got \(1, 4, 1\)"),
        ({"emit": torch.zeros(1, 5, 3)}, r"emit must have shape \(1, 8, V\), got \(1, 5, 3\)"),
        ({"prefix": torch.zeros(1, 4, 0, device="meta")}, "prefix must be on cpu like chain, got meta"),
        ({"emit": torch.zeros(1, 8, 3, device="meta")}, "emit must be on cpu like chain, got meta"),
    ],
)
def test_wrong_shapes_are_refused(change: dict[str, Tensor], message: str) -> None:
    shapes = {"chain": torch.zeros(1, 4, 2, 4), "prefix": torch.zeros(1, 4, 0), "emit": torch.zeros(1, 8, 3)}
    scores = object.__new__(RuleScores)  # past the shape checks that only tests have
    for name, tensor in {**shapes, **change}.items():
        object.__setattr__(scores, name, tensor)
    with pytest.raises(ValueError, match=message):
        scores.__post_init__()


def test_wrong_lengths_and_ids_are_refused() -> None:
    scores = random_scores(SupportTree(4, 1), [4])
    with pytest.raises(ValueError, match=r"chain_lengths must be in 2 … 4, got \[5\]"):
        RHPCFG(scores, torch.tensor([5]))
    grammar = RHPCFG(scores, torch.tensor([4]))
    with pytest.raises(ValueError, match=r"ids must be in 0 … 4, got 0 … 7"):
        grammar.log_prob(Padded.from_lists([[0, 7]]))
    with pytest.raises(ValueError, match=r"target must have 1 sentences, got 2"):
        grammar.log_prob(Padded.from_lists([[0, 1], [1, 2]]))
    with pytest.raises(ValueError, match=r"lengths must be in 0 … 2, got \[3\]"):
        Padded(torch.zeros(1, 2, dtype=torch.int64), torch.tensor([3]))
