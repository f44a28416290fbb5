"""Where the values of tensors can be looked at: on another device the program would wait for it.

How many positions a mask marks is such a value. On the CPU only those are computed; elsewhere all of them
are, and what stands beside the mask is dropped afterwards.
"""

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor


def at_hand(tensor: Tensor) -> bool:
    """Whether reading values of a tensor costs nothing.

    To be called as `waiting.at_hand`: tests deny it, to see on the CPU what other devices compute.
    """
    return tensor.device.type == "cpu"


def picked(mask: Bool[Tensor, "B m"], values: Shaped[Tensor, "B m *rest"]) -> Shaped[Tensor, "R *rest"]:
    """Return the values at positions of a mask, row by row; on other devices those at all positions."""
    return values[mask] if at_hand(mask) else values.flatten(0, 1)


def placed(mask: Bool[Tensor, "B m"], found: Shaped[Tensor, "R *rest"]) -> Shaped[Tensor, "B m *rest"]:
    """Put what was computed of `picked` rows where these were; 0 beside the mask."""
    where = mask.view(*mask.shape, *[1] * (found.dim() - 1))
    if at_hand(mask):
        return found.new_zeros(*mask.shape, *found.shape[1:]).masked_scatter(where, found)
    return torch.where(where, found.view(*mask.shape, *found.shape[1:]), 0)


def total(mask: Bool[Tensor, "B m"], found: Float[Tensor, "R"]) -> Float[Tensor, ""]:
    """Add up what was computed of `picked` rows, those of the mask."""
    return found.sum() if at_hand(mask) else torch.where(mask.flatten(), found, 0).sum()
