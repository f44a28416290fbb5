"""The compiled kernels against the readable reference, at odd shapes and under strain."""

import math
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Literal

import numpy as np
import pytest
import torch

from pcfgnat.grammar.kernels.exponential import (
    exp_double,
    exp_rough,
    exp_single,
    log_double,
    log_rough,
)
from pcfgnat.grammar.tables import equal_ranges
from pcfgnat.structures import RHPCFG, Padded, RuleScores, Search, SupportTree, backend
from pcfgnat.structures.backend import use_numba
from pcfgnat.structures.distribution import gather_tokens
from pcfgnat.structures.rhpcfg import numba, reference
from pcfgnat.structures.rhpcfg.reference import legal_chain_rules
from tests.structures.test_rhpcfg import log_prob_gradients
from tests.support.grammars import random_grammar, random_scores, random_target


def compare(grammar: RHPCFG, target: Padded, tolerance: float) -> None:
    """Values, every gradient and the best tree's score, numba against reference."""
    found = {}
    for name in ("reference", "numba"):
        with backend(name):
            gradients = log_prob_gradients(grammar, target)
            posterior = grammar.posterior(target)
            found[name] = (
                posterior.log_partition.double(),
                posterior.argmax().score.double(),
                *(g.double() for g in (gradients.chain, gradients.prefix, gradients.emit)),
            )
    for fast, plain in zip(found["numba"], found["reference"], strict=True):
        torch.testing.assert_close(fast, plain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_odd_shapes_and_ragged_lengths(depth: int, scale: float) -> None:
    tree = SupportTree(13, depth)
    chain_lengths = [13, 2, 7, 11, 3]
    grammar = random_grammar(tree, chain_lengths, vocabulary=11, scale=scale, seed=depth)
    compare(grammar, random_target([9, 2, 5, 11, 3], vocabulary=11), tolerance=1e-9)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_targets_that_fill_the_tree(depth: int) -> None:
    tree = SupportTree(6, depth)
    grammar = random_grammar(tree, [6, 6, 5], scale=3.0)
    compare(grammar, random_target([tree.max_length, tree.max_length - 1, 5]), tolerance=1e-9)


def test_depth_four_compiles_no_special_case() -> None:
    tree = SupportTree(3, 4)
    compare(random_grammar(tree, [3]), random_target([9]), tolerance=1e-9)


def test_rows_far_below_the_largest_span_keep_their_value() -> None:
    """The rules of a node lead only to spans that are 500 nats less likely than others at that position."""
    tree = SupportTree(12, 1)
    scores = random_scores(tree, [12, 12], seed=3)
    chain = scores.chain.clone()
    chain[:, 0, 0, 1:11] -= 500.0
    chain[:, 5:9] -= torch.linspace(0, 900, 12, dtype=torch.float64)
    emit = scores.emit.clone()
    emit[:, 15:] -= 300.0
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        grammar = RHPCFG(
            RuleScores(chain.to(dtype), scores.prefix.to(dtype), emit.to(dtype)), torch.tensor([12, 12])
        )
        exact = RHPCFG(
            RuleScores(
                *(t.double() for t in (grammar.scores.chain, grammar.scores.prefix, grammar.scores.emit))
            ),
            torch.tensor([12, 12]),
        )
        target = random_target([7, 12])
        with backend("reference"):
            expected, expected_gradients = exact.log_prob(target), log_prob_gradients(exact, target)
        with backend("numba"):
            torch.testing.assert_close(grammar.log_prob(target).double(), expected, rtol=1e-6, atol=0)
            gradients = log_prob_gradients(grammar, target)
        for name in ("chain", "prefix", "emit"):
            found, wanted = getattr(gradients, name).double(), getattr(expected_gradients, name)
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("spread", [60.0, 90.0, 150.0])
def test_float32_loses_no_term_that_matters(spread: float) -> None:
    """Rules and tokens spread evenly over so many nats that products end up at both sides of every limit."""
    tree, generator = SupportTree(24, 1), torch.Generator().manual_seed(7)
    shapes = random_scores(tree, [24] * 6, vocabulary=6)

    def spread_out(tensor: torch.Tensor) -> torch.Tensor:
        noise = -spread * torch.rand(tensor.shape, generator=generator)
        return noise.masked_fill(tensor == -math.inf, -math.inf)

    chain, emit = spread_out(shapes.chain), spread_out(shapes.emit)
    single = RHPCFG(RuleScores(chain, shapes.prefix.float(), emit), torch.tensor([24] * 6))
    double = RHPCFG(RuleScores(chain.double(), shapes.prefix, emit.double()), torch.tensor([24] * 6))
    target = random_target([2, 5, 9, 14, 20, 24], vocabulary=6)
    with backend("reference"):
        expected, wanted = double.log_prob(target), log_prob_gradients(double, target)
    with backend("numba"):
        torch.testing.assert_close(single.log_prob(target).double(), expected, rtol=0, atol=2e-3)
        found = log_prob_gradients(single, target)
    for name in ("chain", "emit"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(wanted, name), rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_float32_is_accurate_on_long_peaked_sentences(scale: float) -> None:
    tree = SupportTree(300, 1)
    single = random_grammar(tree, [300, 260], vocabulary=8, scale=scale, dtype=torch.float32)
    scores = (single.scores.chain, single.scores.prefix, single.scores.emit)
    double = RHPCFG(RuleScores(*(score.double() for score in scores)), single.chain_lengths)
    target = random_target([256, 256], vocabulary=8)
    with backend("numba"):
        torch.testing.assert_close(
            single.log_prob(target).double(), double.log_prob(target), rtol=1e-5, atol=0
        )
        found, wanted = log_prob_gradients(single, target), log_prob_gradients(double, target)
    for name in ("chain", "prefix", "emit"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(wanted, name), rtol=0, atol=1e-3)
    # and the double-precision kernels agree with the reference
    with backend("reference"):
        torch.testing.assert_close(
            double.log_prob(target), wanted_log_prob(double, target), rtol=1e-10, atol=0
        )


def wanted_log_prob(grammar: RHPCFG, target: Padded) -> torch.Tensor:
    with backend("numba"):
        return grammar.log_prob(target)


def test_vectorised_exponentials_are_as_exact_as_they_say() -> None:
    for function, reach, tolerance in ((exp_double, 708.0, 1e-15), (exp_rough, 708.0, 1e-8)):
        for x in [*np.linspace(-reach, reach, 4001), 0.0, -math.log(2) / 2, math.log(2) / 2]:
            assert function(x) == pytest.approx(math.exp(x), rel=tolerance, abs=0.0)
    for x in np.linspace(-87.0, 88.0, 4001, dtype=np.float32):
        assert exp_single(x) == pytest.approx(math.exp(x), rel=2e-7, abs=0.0)


def test_vectorised_logarithms_are_as_exact_as_they_say() -> None:
    around_one = 1.0 + np.linspace(-0.5, 0.5, 1001)
    for x in [*np.exp(np.linspace(-708.0, 709.0, 4001)), *around_one, math.sqrt(0.5), math.sqrt(2.0)]:
        assert log_double(x) == pytest.approx(math.log(x), rel=4e-16, abs=1e-16)
        assert log_rough(x) == pytest.approx(math.log(x), rel=0.0, abs=1e-9)
    assert log_double(1.0) == 0.0
    assert log_rough(1.0) == 0.0


def test_results_do_not_depend_on_memory_left_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = SupportTree(7, 2)
    grammar = random_grammar(tree, [7, 2, 5], dtype=torch.float32)
    target = random_target([6, 2, 4])
    with backend("numba"):
        clean = (grammar.log_prob(target), log_prob_gradients(grammar, target).chain, grammar.mode(Search()))
        best = grammar.posterior(target).argmax()
    allocate = np.empty

    def poisoned(shape: object, *arguments: object, **options: object) -> np.ndarray:
        array: np.ndarray = allocate(shape, *arguments, **options)  # type: ignore[call-overload]
        array.fill(np.nan if array.dtype.kind == "f" else 77)
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    with backend("numba"):
        again = (grammar.log_prob(target), log_prob_gradients(grammar, target).chain, grammar.mode(Search()))
        best_again = grammar.posterior(target).argmax()
    assert torch.equal(clean[0], again[0])
    assert torch.equal(clean[1], again[1])
    assert clean[2] == again[2]
    assert torch.equal(best.position, best_again.position)
    assert torch.equal(best.score, best_again.score)


def test_nan_scores_give_nan_and_not_a_number_that_looks_right() -> None:
    grammar = random_grammar(SupportTree(5, 1), [5, 5])
    grammar.scores.emit[0] = math.nan
    with backend("numba"):
        log_prob = grammar.log_prob(random_target([4, 4]))
    assert log_prob.isnan().tolist() == [True, False]
    grammar = random_grammar(SupportTree(5, 1), [5, 5])
    grammar.scores.emit[1, 2] = math.nan  # one leaf, so that not even every term of a sum is spoilt
    with backend("numba"):
        assert grammar.log_prob(random_target([4, 4])).isnan().tolist() == [False, True]


@pytest.mark.parametrize(("name", "other"), [("numba", reference), ("reference", numba)])
def test_the_backend_that_was_asked_for_works_alone(
    name: Literal["numba", "reference"], other: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("the other backend was called")

    for function in ("total", "log_partition", "best", "best_by_length"):
        monkeypatch.setattr(other, function, unwanted, raising=False)
    grammar = random_grammar(SupportTree(5, 1), [5])
    target = random_target([4])
    with backend(name):
        assert grammar.log_prob(target).isfinite().all()
        assert grammar.posterior(target).best_tree() != [None]
        assert grammar.mode(Search())


def test_threads_give_the_same_bits() -> None:
    tree = SupportTree(60, 1)
    grammar = random_grammar(tree, [60, 40, 60, 20, 55, 60], vocabulary=8, dtype=torch.float32)
    target = random_target([30, 20, 33, 12, 30, 31], vocabulary=8)
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        try:
            with backend("numba"):
                found.append((grammar.log_prob(target), log_prob_gradients(grammar, target).chain))
        finally:
            torch.set_num_threads(1)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_several_python_threads_at_once() -> None:
    grammar = random_grammar(SupportTree(30, 1), [30, 25], vocabulary=8)
    target = random_target([14, 12], vocabulary=8)
    with backend("numba"):
        expected = grammar.log_prob(target)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: grammar.log_prob(target), range(40)):
            assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("work", "parts", "expected"),
    [
        ([1, 1, 1, 1], 2, [(0, 2), (2, 4)]),
        ([10, 1, 1], 2, [(0, 1), (1, 3)]),
        ([5], 3, [(0, 1)]),
        ([], 2, [(0, 0)]),
        ([0, 0], 2, [(0, 2)]),
    ],
)
def test_equal_ranges(work: list[int], parts: int, expected: list[tuple[int, int]]) -> None:
    assert equal_ranges(np.array(work, dtype=np.int64), parts) == expected


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gathered_tokens_and_their_gradient_match_torch(contiguous: bool, dtype: torch.dtype) -> None:
    """Padding may hold any id, and a token that stands twice gets the sum of both gradients."""
    emit = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0), dtype=dtype)
    emit = emit if contiguous else emit.transpose(0, 1).contiguous().transpose(0, 1)
    target = Padded(torch.tensor([[1, 6, 1, 1], [3, 2, -99, 10**9], [4, 4, 4, 4]]), torch.tensor([4, 2, 0]))
    above = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(1), dtype=dtype)
    leaf = emit.detach().requires_grad_()
    assert leaf.is_contiguous() == contiguous
    expected, expected_gradient = torch.full((3, 5, 4), -math.inf, dtype=dtype), torch.zeros_like(emit)
    for b, ids in enumerate(target.to_lists()):
        for t, token in enumerate(ids):
            expected[b, :, t] = emit[b, :, token]
            expected_gradient[b, :, token] += above[b, :, t]
    for name in ("numba", "reference"):
        with backend(name):
            found = gather_tokens(leaf, target)
            (gradient,) = torch.autograd.grad(found, leaf, above)
            assert not gather_tokens(emit, target).requires_grad
        assert torch.equal(found, expected)
        torch.testing.assert_close(gradient, expected_gradient)


def test_gathered_tokens_take_strided_ids_and_short_lengths() -> None:
    emit = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    ids = torch.tensor([[0, 1], [2, 3], [4, 0]]).t()
    target = Padded(ids, torch.tensor([3, 1], dtype=torch.int32))
    with backend("numba"):
        found = gather_tokens(emit, target)
    assert torch.equal(found[0], emit[0][:, [0, 2, 4]])
    assert torch.equal(found[1, :, 0], emit[1, :, 1])
    assert (found[1, :, 1:] == -math.inf).all()


def test_gathered_tokens_can_be_derived_twice() -> None:
    emit = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    target = Padded(torch.tensor([[1, 3, 1], [2, 2, 0]]), torch.tensor([3, 2]))

    def used(emit: torch.Tensor) -> torch.Tensor:
        return gather_tokens(emit, target).masked_fill(~target.mask.unsqueeze(1), 0.0) ** 3

    with backend("numba"):
        assert torch.autograd.gradgradcheck(used, emit.requires_grad_())


def test_unused_rules_may_hold_anything() -> None:
    """Rows are done in whole vectors, so entries before the first right child are read, but never count."""
    tree = SupportTree(21, 1)
    grammar = random_grammar(tree, [21, 13], dtype=torch.float32)
    target = random_target([9, 6])
    unused = ~legal_chain_rules(tree, grammar.chain_lengths)
    with backend("numba"):
        expected = (grammar.log_prob(target), log_prob_gradients(grammar, target).chain)
        for rubbish in (math.nan, math.inf, 3e38):
            chain = grammar.scores.chain.masked_fill(unused, rubbish)
            dirty = RHPCFG(
                RuleScores(chain, grammar.scores.prefix, grammar.scores.emit), grammar.chain_lengths
            )
            found = (dirty.log_prob(target), log_prob_gradients(dirty, target).chain)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("length", [7, 8, 9, 15, 16, 17])
def test_lengths_around_whole_vectors(length: int) -> None:
    grammar = random_grammar(SupportTree(18, 1), [18, 17], vocabulary=6, scale=5.0)
    compare(grammar, random_target([length, length - 1], vocabulary=6), tolerance=1e-9)


def test_gradients_arrive_scaled_by_what_comes_from_above() -> None:
    grammar = random_grammar(SupportTree(5, 1), [5, 5])
    emit = grammar.scores.emit.clone().requires_grad_()
    target = random_target([4, 3])
    with backend("numba"):
        log_prob = RHPCFG(
            RuleScores(grammar.scores.chain, grammar.scores.prefix, emit), grammar.chain_lengths
        ).log_prob(target)
        (plain,) = torch.autograd.grad(log_prob.sum(), emit, retain_graph=True)
        (weighted,) = torch.autograd.grad(2.5 * log_prob[0] - log_prob[1], emit)
    torch.testing.assert_close(weighted[0], 2.5 * plain[0])
    torch.testing.assert_close(weighted[1], -plain[1])


def test_half_precision_takes_the_reference() -> None:
    grammar = random_grammar(SupportTree(4, 1), dtype=torch.bfloat16)
    assert grammar.log_prob(random_target([3])).dtype == torch.bfloat16
    gradients = log_prob_gradients(grammar, random_target([3]))
    assert float(gradients.emit.sum()) == pytest.approx(3.0, rel=0.05)  # every token is emitted once
    with (
        backend("numba"),
        pytest.raises(
            RuntimeError, match=r"needs numba and float32 or float64 on the CPU, got torch.bfloat16"
        ),
    ):
        grammar.log_prob(random_target([3]))


def test_unknown_backends_are_refused() -> None:
    with (
        pytest.raises(ValueError, match="backend must be one of auto, numba, triton, reference, got 'cuda'"),
        backend("cuda"),
    ):
        pass


def test_environment_chooses_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in (("reference", False), ("numba", True), ("auto", True)):
        monkeypatch.setenv("PCFGNAT_BACKEND", value)
        assert use_numba(torch.zeros(1)) == expected


def test_an_empty_batch_is_no_error() -> None:
    scores = RuleScores(torch.zeros(0, 4, 2, 4), torch.zeros(0, 4, 0), torch.zeros(0, 8, 3))
    grammar = RHPCFG(scores, torch.zeros(0, dtype=torch.int64))
    target = Padded(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    for name in ("numba", "reference"):
        with backend(name):
            assert grammar.log_prob(target).shape == (0,)
            assert grammar.mode(Search()) == []
