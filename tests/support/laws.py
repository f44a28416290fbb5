"""Laws that hold for every distribution over sentences with hidden structure, whatever the structure is."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.structures import Padded, Search, SequenceDistribution
from tests.support.law_cases import Case, LawCases
from tests.support.oracle import log_sum

SIGMAS = 5.0  # how far a frequency may be off; at the fixed seeds nothing comes near


class Laws(LawCases):
    """Inherit, supply the cases, and every law is tested."""

    def check_emissions(self, marginals: Tensor, mask: Tensor) -> None:
        """Each target position is emitted exactly once, and each node emits at most one."""
        assert_close(marginals.sum(1), mask.to(marginals), rtol=0, atol=1e-12)
        assert bool((marginals.sum(2) <= 1 + 1e-12).all())

    def test_log_prob_sums_the_structures(self, engine: str) -> None:
        case = self.case()
        found = self.distribution(case).log_prob(case.target)
        expected = [log_sum([score for score, _ in self.structures(case, b)]) for b in range(3)]
        assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11)

    def test_log_prob_in_single_precision(self, engine: str) -> None:
        case = self.case()
        found = self.distribution(case.to(torch.float32)).log_prob(case.target)
        assert found.dtype == torch.float32
        assert_close(found.double(), self.distribution(case).log_prob(case.target), rtol=0, atol=1e-4)

    def test_sum_is_at_least_the_best(self, engine: str) -> None:
        posterior = self.distribution(self.case()).posterior(self.case().target)
        assert bool((posterior.log_partition >= posterior.argmax().score - 1e-12).all())
        assert float(posterior.log_partition[0]) >= float(posterior.argmax().score[0])

    def test_argmax_is_the_best_structure(self, engine: str) -> None:
        case = self.case()
        alignment = self.distribution(case).posterior(case.target).argmax()
        for b in range(3):
            score, position = self.structures(case, b)[0]
            assert float(alignment.score[b]) == pytest.approx(score, abs=1e-11)
            assert padded_position(alignment.position[b], len(position)) == position

    def test_argmax_scores_what_its_structure_scores(self, engine: str) -> None:
        case = self.case(scale=5.0)
        alignment = self.distribution(case).posterior(case.target).argmax()
        for b in range(3):
            scores = {position: score for score, position in self.structures(case, b)}
            position = padded_position(alignment.position[b], len(next(iter(scores))))
            assert scores[position] == pytest.approx(float(alignment.score[b]), abs=1e-11)
            assert scores[position] == max(scores.values())

    def test_marginals_sum_as_they_must(self, engine: str) -> None:
        case = self.case()
        marginals = self.distribution(case).posterior(case.target).marginals()
        assert bool(((marginals >= 0) & (marginals <= 1 + 1e-12)).all())
        self.check_emissions(marginals, case.target.mask)

    def test_marginals_equal_enumeration(self, engine: str) -> None:
        case = self.case()
        marginals = self.distribution(case).posterior(case.target).marginals()
        expected = torch.zeros_like(marginals)
        for b in range(3):
            for chance, position in self.posterior_chances(case, b):
                for node, i in enumerate(position):
                    if i >= 0:
                        expected[b, node, i] += chance
        assert_close(marginals, expected, rtol=0, atol=1e-11)

    def test_gradient_of_log_prob_is_checked_numerically(self, engine: str) -> None:
        case = self.case()
        leaves = tuple(leaf.clone().requires_grad_() for leaf in case.leaves)
        assert torch.autograd.gradcheck(
            lambda *own: self.build(own, case.sizes).log_prob(case.target), leaves, fast_mode=True
        )

    def test_gradient_of_entropy_is_checked_numerically(self) -> None:
        case = self.alone(self.case(), 0)
        leaves = tuple(leaf.clone().requires_grad_() for leaf in case.leaves)

        def entropy(*own: Tensor) -> Tensor:
            return self.build(own, case.sizes).posterior(case.target).entropy()

        assert torch.autograd.gradcheck(entropy, leaves, fast_mode=True)

    def test_entropy_equals_enumeration(self, engine: str) -> None:
        case = self.case()
        entropy = self.distribution(case).posterior(case.target).entropy()
        for b in range(3):
            expected = -sum(chance * math.log(chance) for chance, _ in self.posterior_chances(case, b))
            assert float(entropy[b]) == pytest.approx(expected, abs=1e-10)

    @pytest.mark.parametrize("k", [1, 3, 50])
    def test_k_best_are_the_first_of_all(self, k: int) -> None:
        case = self.case()
        best = self.distribution(case).posterior(case.target).k_best(k)
        assert len(best) == k
        for b in range(3):
            expected = self.structures(case, b)[:k]
            scores = [float(alignment.score[b]) for alignment in best]
            assert scores[: len(expected)] == pytest.approx([score for score, _ in expected], abs=1e-11)
            assert all(score == -math.inf for score in scores[len(expected) :])
            assert all(left >= right for left, right in pairwise(scores))
            size = len(expected[0][1])
            found = [padded_position(alignment.position[b], size) for alignment in best[: len(expected)]]
            assert len(set(found)) == len(expected)
            assert set(found) == {position for _, position in expected}

    def test_uniform_scores_count_structures(self, engine: str) -> None:
        case = self.case()
        flat = tuple(torch.where(leaf > -math.inf, 0.0, leaf) for leaf in case.leaves)
        posterior = self.build(flat, case.sizes).posterior(case.target)
        ids = case.target.to_lists()
        counts = [self.count(int(case.sizes[b]), ids[b]) for b in range(3)]
        assert counts == [len(self.structures(case, b)) for b in range(3)]
        assert posterior.num_derivations().tolist() == counts
        assert_close(posterior.log_partition.exp(), torch.tensor(counts, dtype=torch.float64))

    def test_all_sentences_have_probability_one_together(self, engine: str) -> None:
        case = self.all_sentences()
        total = self.distribution(case).log_prob(case.target).exp().sum()
        assert float(total) == pytest.approx(1.0, abs=1e-12)

    def test_sampled_sentences_are_as_frequent_as_they_are_probable(self) -> None:
        case, draws = self.all_sentences(), 1000
        chances = self.distribution(case).log_prob(case.target).exp().tolist()
        many = self.tiny().row(0, draws)
        drawn = Counter(h.ids for h in self.distribution(many).sample(torch.Generator().manual_seed(1)))
        for ids, chance in zip(case.target.to_lists(), chances, strict=True):
            assert_frequency(drawn.pop(tuple(ids), 0), draws, chance)
        assert not drawn

    def test_sampled_structures_are_as_frequent_as_they_are_probable(self) -> None:
        case, draws = self.case(), 3000
        many = case.row(0, draws)
        posterior = self.distribution(many).posterior(many.target)
        alignment = posterior.sample(torch.Generator().manual_seed(1))
        self.check_drawn_structures(case, alignment.position, alignment.score)
        used = alignment.position.unsqueeze(2) == torch.arange(many.target.ids.shape[1])
        marginals = posterior.marginals()[0]
        spread = (marginals * (1 - marginals) / draws).clamp(min=0).sqrt()
        assert bool(((used.double().mean(0) - marginals).abs() <= SIGMAS * spread + 1e-9).all())

    def check_drawn_structures(self, case: Case, position: Tensor, score: Tensor) -> None:
        size = len(self.structures(case, 0)[0][1])
        drawn = Counter(padded_position(row, size) for row in position)
        for chance, structure in self.posterior_chances(case, 0):
            assert_frequency(drawn.pop(structure, 0), len(position), chance)
        assert not drawn
        scores = {structure: value for value, structure in self.structures(case, 0)}
        expected = [scores[padded_position(row, size)] for row in position]
        assert_close(score, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11)

    def test_batching_changes_nothing(self, engine: str) -> None:
        case = self.case()
        turned = case.rows(torch.tensor([2, 0, 1]))
        forward, backward = self.distribution(case), self.distribution(turned)
        assert_close(
            backward.log_prob(turned.target), forward.log_prob(case.target)[[2, 0, 1]], rtol=0, atol=0
        )
        for strategy in self.strategies:
            alone = [self.decode_alone(b, strategy) for b in range(3)]
            assert forward.mode(Search(strategy=strategy)) == alone
            assert backward.mode(Search(strategy=strategy)) == [alone[2], alone[0], alone[1]]
        for b in range(3):
            single = self.alone(case, b)
            log_prob = self.distribution(single).log_prob(single.target)[0]
            assert_close(forward.log_prob(case.target)[b], log_prob, rtol=0, atol=1e-12)

    def test_padding_changes_no_value(self, engine: str) -> None:
        case = self.poisoned()
        distribution = self.distribution(case)
        posterior = distribution.posterior(case.target)
        best, marginals = posterior.argmax(), posterior.marginals()
        for b in range(3):
            clean = self.alone(self.case(), b)
            alone = self.distribution(clean).posterior(clean.target)
            assert_close(posterior.log_partition[b], alone.log_partition[0], rtol=0, atol=1e-12)
            assert_close(best.score[b], alone.argmax().score[0], rtol=0, atol=1e-12)
            assert best.nodes(b) == alone.argmax().nodes(0)
            _, nodes, positions = alone.marginals().shape
            assert_close(marginals[b, :nodes, :positions], alone.marginals()[0], rtol=0, atol=1e-12)
            assert_close(marginals[b].sum(), alone.marginals().sum(), rtol=0, atol=1e-11)
        assert distribution.infeasible(case.target) == {}

    def test_padding_changes_no_gradient(self, engine: str) -> None:
        case = self.poisoned()
        gradients = self.gradients(case)
        for b in range(3):
            cropped = self.crop(tuple(g[b : b + 1] for g in gradients), int(case.sizes[b]))
            alone = self.gradients(self.alone(self.case(), b))
            for whole, mine, expected in zip(gradients, cropped, alone, strict=True):
                assert_close(mine, expected, rtol=0, atol=1e-12)
                assert float(whole[b].abs().sum()) == pytest.approx(float(mine.abs().sum()), abs=1e-12)

    def test_padding_changes_no_semiring(self) -> None:
        case = self.poisoned()
        posterior = self.distribution(case).posterior(case.target)
        entropy, counts, best = posterior.entropy(), posterior.num_derivations(), posterior.k_best(2)
        drawn = posterior.sample(torch.Generator().manual_seed(0))
        for b in range(3):
            clean = self.alone(self.case(), b)
            alone = self.distribution(clean).posterior(clean.target)
            assert_close(entropy[b], alone.entropy()[0], rtol=0, atol=1e-11)
            assert float(counts[b]) == float(alone.num_derivations()[0])
            for mine, expected in zip(best, alone.k_best(2), strict=True):
                assert_close(mine.score[b], expected.score[0], rtol=0, atol=1e-12)
                assert mine.nodes(b) == expected.nodes(0)
            scores = [score for score, _ in self.structures(self.case(), b)]
            assert min(abs(float(drawn.score[b]) - score) for score in scores) < 1e-11

    def test_padding_and_batching_change_no_decoding(self, engine: str) -> None:
        case = self.poisoned()
        for strategy in self.strategies:
            together = self.distribution(case).mode(Search(strategy=strategy))
            assert together == [self.decode_alone(b, strategy) for b in range(3)]

    def test_decoded_sentences_have_the_probability_they_claim(self, engine: str) -> None:
        distribution = self.distribution(self.case())
        for strategy in self.strategies:
            found = distribution.mode(Search(strategy=strategy))
            together = distribution.log_prob(Padded.from_lists([list(h.ids) for h in found]))
            for hypothesis, log_prob in zip(found, together.tolist(), strict=True):
                assert -math.inf < hypothesis.score <= log_prob + 1e-11
                assert len(hypothesis.nodes) == len(hypothesis.ids)
                assert list(hypothesis.nodes) == sorted(set(hypothesis.nodes))
                assert hypothesis.tree is None or hypothesis.tree.log_prob == hypothesis.score

    def test_unknown_strategy_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"strategy must be one of .*, got 'best'") as caught:
            self.distribution(self.case()).mode(Search(strategy="best"))
        assert all(strategy in str(caught.value) for strategy in self.strategies)

    def test_impossible_targets(self, engine: str) -> None:
        targets = self.impossible()
        case = self.case().with_targets([ids for ids, _ in targets])
        distribution = self.distribution(case)
        assert distribution.log_prob(case.target).tolist() == [-math.inf] * 3
        assert all(bool((gradient == 0).all()) for gradient in self.gradients(case))
        assert all(bool((gradient == 0).all()) for gradient in self.gradients(case, entropy=True))
        self.check_nothing_found(distribution, case.target)
        reasons = distribution.infeasible(case.target)
        assert list(reasons) == [0, 1, 2]
        for b, (_, expected) in enumerate(targets):
            assert expected in reasons[b]

    def check_nothing_found(self, distribution: SequenceDistribution, target: Padded) -> None:
        posterior = distribution.posterior(target)
        assert not bool(posterior.feasible.any())
        generator = torch.Generator().manual_seed(0)
        for alignment in [posterior.argmax(), posterior.sample(generator), *posterior.k_best(2)]:
            assert bool((alignment.position == -1).all())
            assert bool((alignment.score == -math.inf).all())
        assert bool((posterior.marginals() == 0).all())
        assert posterior.entropy().tolist() == posterior.num_derivations().tolist() == [0.0] * 3

    def test_the_empty_sentence(self, engine: str) -> None:
        case = self.case().with_targets([[], [], []])
        distribution = self.distribution(case)
        expected = [log_sum([score for score, _ in self.structures(case, b)]) for b in range(3)]
        assert distribution.log_prob(case.target).tolist() == pytest.approx(expected, abs=1e-12)
        assert distribution.posterior(case.target).marginals().numel() == 0
        if max(expected) == -math.inf:
            self.check_nothing_found(distribution, case.target)

    def test_an_impossible_target_leaves_its_neighbours_alone(self, engine: str) -> None:
        case = self.case()
        sentences = case.target.to_lists()
        mixed = case.with_targets([sentences[0], self.impossible()[1][0], sentences[2]])
        expected, found = self.gradients(case), self.gradients(mixed)
        log_prob = self.distribution(mixed).log_prob(mixed.target)
        assert_close(log_prob[[0, 2]], self.distribution(case).log_prob(case.target)[[0, 2]])
        for mine, whole in zip(found, expected, strict=True):
            assert bool((mine[1] == 0).all())
            assert_close(mine[[0, 2]], whole[[0, 2]])
        assert list(self.distribution(mixed).infeasible(mixed.target)) == [1]

    def test_tokens_of_probability_zero(self, engine: str) -> None:
        case = self.case()
        emit = case.leaves[-1].clone()
        emit[1, :, case.target.ids[1, 0]] = -math.inf
        without = replace(case, leaves=(*case.leaves[:-1], emit))
        distribution = self.distribution(without)
        assert "probability 0" in distribution.infeasible(case.target)[1]
        assert bool(distribution.log_prob(case.target)[1] == -math.inf)
        assert all(bool(g.isfinite().all() & (g[1] == 0).all()) for g in self.gradients(without))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("scale", [0.0, 30.0, 1000.0])
    def test_nothing_is_ever_nan(self, engine: str, scale: float, dtype: torch.dtype) -> None:
        case = self.case(scale).to(dtype)
        posterior = self.distribution(case).posterior(case.target)
        drawn = posterior.sample(torch.Generator().manual_seed(0))
        alignments = [posterior.argmax(), drawn, *posterior.k_best(3)]
        tensors = [posterior.log_partition, posterior.marginals(), posterior.entropy()]
        for tensor in [*tensors, *[a.score for a in alignments], *self.gradients(case)]:
            assert not bool(tensor.isnan().any())
        assert all(bool(gradient.isfinite().all()) for gradient in self.gradients(case))
        assert bool((posterior.marginals() <= 1.0001).all())

    def test_a_target_that_does_not_fit_is_refused(self) -> None:
        distribution = self.distribution(self.case())
        with pytest.raises(ValueError, match="target must have 3 sentences, got 1"):
            distribution.log_prob(Padded.from_lists([[0, 1]]))
        vocabulary = self.case().leaves[-1].shape[-1]
        with pytest.raises(ValueError, match=f"ids must be in 0 … {vocabulary - 1}, got 0 … {vocabulary}"):
            distribution.log_prob(Padded.from_lists([[0, vocabulary]] * 3))


def padded_position(position: Any, size: int) -> tuple[int, ...]:
    """The positions of the first nodes; the others, which are padding, must be unused."""
    row = position.tolist()
    assert all(i == -1 for i in row[size:])
    return tuple(row[:size])


def assert_frequency(count: int, draws: int, chance: float) -> None:
    """The count of an event is within a few standard deviations of what its chance makes it."""
    spread = math.sqrt(max(chance * (1 - chance), 0.0) * draws)
    assert abs(count - chance * draws) <= (SIGMAS * spread + 1 if chance > 0 else 0)
