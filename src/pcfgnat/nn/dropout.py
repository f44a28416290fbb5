"""Dropout whose masks are drawn cheaply on the CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 2**16


class Dropout(nn.Module):
    """Set a share of the numbers to 0 in training and scale up the others.

    On the CPU this is two to three times as fast as torch's own: a random 64-bit number decides on four of
    them, and so the share is rounded to a multiple of 2⁻¹⁶.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """Drop some of the numbers if this module is in training."""
        return dropout(x, self.share) if self.training else x

    def extra_repr(self) -> str:
        """Show the share when the module is printed."""
        return f"{self.share}"


def dropout(x: Float[Tensor, "*any"], share: float) -> Float[Tensor, "*any"]:
    """Set `share` of the numbers to 0 and scale up the others, so that the expectation stays."""
    if share == 0.0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, share)
    dropped = round(share * LEVELS)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = draws >= dropped - LEVELS // 2
    return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
