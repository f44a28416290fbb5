"""Semirings on plain lists of numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.structures.semiring import (
    CountSemiring,
    EntropySemiring,
    KBestSemiring,
    LogSemiring,
    MaxSemiring,
    SampleSemiring,
    Semiring,
    logsumexp,
)

weights = st.lists(st.floats(-30, 5) | st.just(-math.inf), min_size=1, max_size=6)
SEMIRINGS: list[Semiring] = [
    LogSemiring(),
    MaxSemiring(),
    KBestSemiring(3),
    CountSemiring(),
    EntropySemiring(),
]


def assert_equal(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("semiring", SEMIRINGS, ids=lambda semiring: type(semiring).__name__)
@given(a=st.floats(-20, 5), b=st.floats(-20, 5), c=st.floats(-20, 5))
def test_semiring_laws(semiring: Semiring, a: float, b: float, c: float) -> None:
    x, y, z = (semiring.lift(torch.tensor([value], dtype=torch.float64)) for value in (a, b, c))
    shape = torch.zeros(1, dtype=torch.float64)
    zero, one = semiring.zero(shape), semiring.one(shape)
    assert_equal(semiring.plus([x, y]), semiring.plus([y, x]))
    assert_equal(semiring.plus([semiring.plus([x, y]), z]), semiring.plus([x, y, z]))
    assert_equal(semiring.times(semiring.times(x, y), z), semiring.times(x, semiring.times(y, z)))
    assert_equal(semiring.plus([x, zero]), x)
    assert_equal(semiring.times(x, one), x)
    both = semiring.times(semiring.plus([x, y]), z)
    assert_equal(both, semiring.plus([semiring.times(x, z), semiring.times(y, z)]))
    nothing = semiring.times(semiring.plus([x, y]), zero)
    assert_equal(nothing[:1], zero[:1])


@given(weights)
def test_sums_mean_what_they_say(values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    possible = sorted((v for v in values if v > -math.inf), reverse=True)
    total = math.log(math.fsum(map(math.exp, possible))) if possible else -math.inf
    assert float(LogSemiring().sum(tensor[None], -1)) == pytest.approx(total)
    assert float(MaxSemiring().sum(tensor[None], -1)) == max(values)
    assert float(CountSemiring().sum(CountSemiring().lift(tensor), -1)) == len(possible)
    best = KBestSemiring(3)
    padded = (possible + [-math.inf] * 3)[:3]
    assert best.sum(best.lift(tensor), -1).tolist() == padded
    log_z, entropy = EntropySemiring().sum(EntropySemiring().lift(tensor), -1).tolist()
    expected = -math.fsum(math.exp(v - total) * (v - total) for v in possible)
    assert log_z == pytest.approx(total)
    assert entropy == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("semiring", SEMIRINGS, ids=lambda semiring: type(semiring).__name__)
def test_any_axis_can_be_summed(semiring: Semiring) -> None:
    generator = torch.Generator().manual_seed(0)
    log_weights = torch.randn(2, 3, 4, 5, generator=generator, dtype=torch.float64)
    for dim in (-2, -3, -4):
        last = semiring.lift(log_weights.movedim(dim, -1))
        assert_equal(semiring.sum(semiring.lift(log_weights), dim), semiring.sum(last, -1))


def test_gradients_of_the_impossible_are_zero() -> None:
    nothing = torch.full((2, 3), -math.inf, requires_grad=True)
    for total in (logsumexp(nothing, -1), EntropySemiring().sum(EntropySemiring().lift(nothing), -1)):
        (gradient,) = torch.autograd.grad(total.sum(), nothing)
        assert gradient.tolist() == [[0.0] * 3] * 2


def test_sampled_gradients_follow_the_shares() -> None:
    semiring = SampleSemiring(torch.Generator().manual_seed(0))
    shares = torch.tensor([0.1, 0.6, 0.3, 0.0])
    values = shares.log().expand(1, 6000, 4).clone().requires_grad_()
    (marks,) = torch.autograd.grad(semiring.sum(values, -1).sum(), values)
    assert bool((marks.sum(-1) == 1).all())
    torch.testing.assert_close(marks.mean((0, 1)), shares, atol=0.03, rtol=0)


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        KBestSemiring(0)
