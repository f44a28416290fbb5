"""Which implementation of CTC runs where, and why torch's own is none of them."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import ctc_loss

from pcfgnat.structures import CTC, Padded, backend
from pcfgnat.structures.ctc import numba, reference
from pcfgnat.structures.ctc.triton import functions
from pcfgnat.structures.semiring import LogSemiring
from tests.support.transfers import META, no_transfers

SLOTS, TOKENS = 6, 5
TARGET = [[1, 2, 2], [3, 4]]


def scores(device: str = "cpu", dtype: torch.dtype = torch.float64) -> Tensor:
    drawn = torch.randn(2, SLOTS, TOKENS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return drawn.to(device, dtype).requires_grad_()


def canvas(given: Tensor) -> CTC:
    return CTC(given, torch.full((2,), SLOTS, device=given.device), blank=0)


def target() -> Padded:
    return Padded.from_lists(TARGET)


def torchs(given: Tensor) -> Tensor:
    own = target()
    sizes = (torch.full((2,), SLOTS), own.lengths)
    return -ctc_loss(given.transpose(0, 1), own.ids, *sizes, reduction="none")


def gradient(total: Tensor, given: Tensor) -> Tensor:
    return torch.autograd.grad(total.sum(), given)[0]


@pytest.mark.parametrize(
    ("device", "dtype", "chosen"),
    [
        ("cpu", torch.float32, "numba"),
        ("cpu", torch.float64, "numba"),
        ("cpu", torch.bfloat16, "reference"),
        ("meta", torch.float32, "triton"),
        ("meta", torch.bfloat16, "triton"),
    ],
)
def test_the_device_and_dtype_choose(
    device: str, dtype: torch.dtype, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = set()

    def seen(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any) -> Any:
            used.add(name)
            return function(*given)

        return recorded

    monkeypatch.setattr(reference, "total", seen("reference", reference.total))
    for name, module in (("numba", numba), ("triton", functions)):
        for function in ("log_partition", "best"):
            monkeypatch.setattr(module, function, seen(name, getattr(module, function)))
    posterior = canvas(scores(device, dtype)).posterior(target().to(torch.device(device)))
    assert posterior.log_partition.shape == (2,)
    assert posterior.argmax().position.shape == (2, SLOTS)
    assert used == {chosen}


@pytest.mark.parametrize("name", ["triton", "reference"])
def test_nothing_waits_for_the_device(name: str) -> None:
    given = scores("meta")
    on_device, wanted = canvas(given), target().to(META)
    with no_transfers(), backend(name):
        posterior = on_device.posterior(wanted)
        found = gradient(posterior.log_partition, given)
        best = posterior.argmax()
    assert found.shape == given.shape
    assert best.position.device == META


@pytest.mark.parametrize("name", ["auto", "reference"])
def test_torchs_gradient_is_right_behind_a_log_softmax_only(name: str) -> None:
    given = scores()
    with backend(name):
        plain = canvas(given).log_prob(target())
        normalised = canvas(given.log_softmax(-1)).log_prob(target())
        assert torch.allclose(plain, torchs(given))
        assert torch.allclose(normalised, torchs(given.log_softmax(-1)))
        assert torch.allclose(gradient(normalised, given), gradient(torchs(given.log_softmax(-1)), given))
        assert not torch.allclose(gradient(plain, given), gradient(torchs(given), given), atol=0.1)


def test_torchs_gradient_is_nan_where_a_token_is_ruled_out() -> None:
    given = scores().detach()
    given[0, 0, 3] = -math.inf  # not even a token of this target
    given.requires_grad_()
    assert bool(gradient(torchs(given), given).isnan().any())
    assert bool(gradient(canvas(given).log_prob(target()), given).isfinite().all())


def test_repetitions_have_posteriors_of_their_own() -> None:
    """Tokens 1 and 2 of the first target are equal; torch has one number for both."""
    marginals = canvas(scores()).posterior(target()).marginals()[0].detach()
    assert not torch.allclose(marginals[:, 1], marginals[:, 2])
    assert float(marginals.sum()) >= 3  # each of the three tokens is emitted at least once


def test_torchs_gradient_has_no_derivative() -> None:
    given = scores()
    (first,) = torch.autograd.grad(torchs(given.log_softmax(-1)).sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        torch.autograd.grad(first.square().sum(), given)


def test_log_partition_is_the_references() -> None:
    given = scores()
    posterior = canvas(given).posterior(target())
    problem = posterior._problem(posterior._weights)
    assert torch.allclose(posterior.log_partition, reference.total(LogSemiring(), problem)[0])
