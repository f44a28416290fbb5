"""Log-probabilities of chosen tokens against log_softmax and gather."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradgradcheck
from torch.testing import assert_close

from pcfgnat.nn import best_types, emission, token_log_probs, token_log_probs_within, waiting

ROWS, VOCABULARY, WIDTH, CHOSEN = 13, 11, 6, 5


@pytest.fixture(params=[1, 3 * VOCABULARY, 4 * VOCABULARY + 1, 10**6], ids=lambda size: f"chunk {size}")
def _chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row at a time, three, five (what is left is smaller), and all at once."""
    monkeypatch.setitem(emission.CHUNK, "cpu", request.param)


def problem(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States, weights, chosen tokens with repeats in each row, and what the results count."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(ROWS, WIDTH, generator=generator, dtype=dtype)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator, dtype=dtype)
    types = torch.randint(VOCABULARY, (ROWS, CHOSEN), generator=generator)
    types[:, 3] = types[:, 0]
    types[2] = types[2, 0]
    share = torch.rand(ROWS, CHOSEN, generator=generator, dtype=dtype)
    return states.requires_grad_(), weight.requires_grad_(), types, share


def plain(states: Tensor, weight: Tensor, types: Tensor) -> Tensor:
    return (states @ weight.t()).log_softmax(-1).gather(1, types)


@pytest.mark.usefixtures("_chunk")
def test_equals_log_softmax_and_gather() -> None:
    states, weight, types, _ = problem()
    assert_close(token_log_probs(states, weight, types), plain(states, weight, types))
    assert torch.equal(best_types(states, weight), (states @ weight.t()).argmax(1))


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_autograd_s_if_nothing_is_negligible(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(emission, "NEGLIGIBLE", 0.0)
    states, weight, types, share = problem(dtype=dtype)
    share[4] = 0.0  # takes no part
    share[5] *= 1e-9  # counts all the same
    share[6] *= -1  # a gradient may have either sign
    found = torch.autograd.grad((share * token_log_probs(states, weight, types)).sum(), (states, weight))
    expected = torch.autograd.grad((share * plain(states, weight, types)).sum(), (states, weight))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert_close(found, expected, rtol=tolerance, atol=1e-6 * tolerance if dtype == torch.float64 else 1e-6)
    assert not bool(found[0][4].any())
    assert bool(found[0][5].any())


@pytest.mark.usefixtures("_chunk")
def test_only_a_negligible_share_of_the_gradient_is_lost() -> None:
    states, weight, types, share = problem()
    share[3:9] *= 1e-4
    share[9] = 3 * emission.NEGLIGIBLE * share.sum() / CHOSEN  # little, but not negligible
    mass = share.abs().sum()
    found = torch.autograd.grad((share * token_log_probs(states, weight, types)).sum(), (states, weight))
    expected = torch.autograd.grad((share * plain(states, weight, types)).sum(), (states, weight))
    lost = (found[0] == 0).all(1)
    assert lost.nonzero().flatten().tolist() == [3, 4, 5, 6, 7, 8]
    assert float(share[lost].sum()) <= emission.NEGLIGIBLE * float(mass)
    assert_close(found[0][~lost], expected[0][~lost])
    # a row's scores get at most twice its mass: once through the chosen tokens, once through the sum
    bound = 2 * emission.NEGLIGIBLE * float(mass) * float(states.detach().abs().max())
    assert 0 < float((found[1] - expected[1]).abs().max()) <= bound


def test_rows_of_equal_mass_are_all_relevant() -> None:
    states, weight, types, _ = problem()
    (gradient,) = torch.autograd.grad(token_log_probs(states, weight, types).sum(), states)
    assert bool(gradient.any(1).all())


@pytest.mark.usefixtures("_chunk")
def test_gradcheck() -> None:
    states, weight, types, _ = problem()
    assert torch.autograd.gradcheck(lambda s, w: token_log_probs(s, w, types), (states, weight))


def test_second_derivatives_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emission, "NEGLIGIBLE", 0.0)
    states, weight, types, share = problem()
    assert gradgradcheck(token_log_probs, (states, weight, types), fast_mode=True)
    found = torch.func.grad(lambda given: (share * token_log_probs(given, weight.detach(), types)).sum())
    (expected,) = torch.autograd.grad((share * plain(states, weight, types)).sum(), states)
    assert_close(found(states.detach()), expected)


def test_a_gradient_that_is_not_finite_is_passed_on() -> None:
    states, weight, types, share = problem()
    share[1] = math.nan
    gradients = torch.autograd.grad((share * token_log_probs(states, weight, types)).sum(), (states, weight))
    assert bool(gradients[0][1].isnan().all())
    assert bool(gradients[1].isnan().any())


def test_huge_scores_do_not_overflow() -> None:
    states, weight, types, _ = problem(dtype=torch.float32)
    found = token_log_probs(states * 1e4, weight, types)
    assert bool(found.isfinite().all())
    assert_close(found, plain(states * 1e4, weight, types))


def test_nothing_gives_nothing() -> None:
    states, weight, types, _ = problem()
    found = token_log_probs(states[:0], weight, types[:0])
    assert found.shape == (0, CHOSEN)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert not bool(weight.grad.any())
    assert best_types(states[:0], weight).shape == (0,)


@torch.no_grad()
@pytest.mark.parametrize("at_hand", [True, False])
def test_a_smaller_vocabulary_has_its_own_softmax(at_hand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "at_hand", lambda _: at_hand)
    states, weight, types, _ = problem()
    vocabulary = torch.tensor([0, 1, 3, 4, 7, 10])
    inside = vocabulary[types % len(vocabulary)]
    scores = torch.full((ROWS, VOCABULARY), -math.inf, dtype=torch.float64)
    scores[:, vocabulary] = (states @ weight.t())[:, vocabulary]
    kept = torch.isin(torch.arange(VOCABULARY), vocabulary)
    for most in (len(vocabulary), len(vocabulary) + 2, VOCABULARY):
        found = token_log_probs_within(states, weight, inside, kept, most)
        assert_close(found, scores.log_softmax(-1).gather(1, inside))
    everything = token_log_probs_within(states, weight, types, torch.ones_like(kept), VOCABULARY)
    assert_close(everything, token_log_probs(states, weight, types))
