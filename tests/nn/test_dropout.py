import pytest
import torch
from torch.testing import assert_close

from pcfgnat.nn import Dropout
from pcfgnat.nn.dropout import dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(999, 101), (7,), (0, 3), ()])
def test_drops_its_share_and_scales_up_the_rest(share: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    dropped = dropout(x, share)
    assert dropped.shape == shape
    scale = 1 / (1 - share)
    assert bool(((dropped == 0) | ((dropped - scale).abs() < 1e-3 * scale)).all())
    if x.numel() > 1000:
        assert float((dropped == 0).double().mean()) == pytest.approx(share, abs=0.01)
        assert float(dropped.detach().double().mean()) == pytest.approx(1, abs=0.02)
    dropped.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, dropped)


def test_neighbours_are_independent() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(100_000), 0.3) > 0).double()
    for distance in (1, 2, 3, 4, 8):
        both = float((kept[:-distance] * kept[distance:]).mean())
        assert both == pytest.approx(0.49, abs=0.01)


def test_the_seed_decides() -> None:
    x = torch.ones(50)
    torch.manual_seed(3)
    first = dropout(x, 0.5)
    assert not torch.equal(dropout(x, 0.5), first)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5), first)


def test_nothing_is_dropped_in_evaluation_or_without_a_share() -> None:
    x = torch.randn(20)
    module = Dropout(0.5)
    assert not torch.equal(module(x), x)
    assert torch.equal(module.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert repr(module) == "Dropout(0.5)"


def test_half_precision_stays_half() -> None:
    x = torch.ones(1000, dtype=torch.bfloat16)
    assert dropout(x, 0.1).dtype == torch.bfloat16
    assert_close(dropout(x, 0.1).max(), torch.tensor(1 / 0.9, dtype=torch.bfloat16))
