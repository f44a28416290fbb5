"""Glancing (Qian et al. 2021): in training some nodes are shown the token that they should emit."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.structures import Padded

GOLDEN = -0x61C8864680B583EB  # 2⁶⁴ divided by the golden ratio, as a signed number


@dataclass(frozen=True)
class GlancingConfig:
    """How much is shown: the share τ of what the model does not know yet, from `first` to `last`.

    force_emit: whether a node that was shown a token can emit no other
    shortlist:  look for the best structure as if there were no tokens but the batch's own and so many of the
                first ids, which in learnt vocabularies are frequent ones. Saves most of the output layer's
                work in that pass; without it, all tokens count
    """

    first: float = 0.5
    last: float = 0.1
    force_emit: bool = False
    shortlist: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be in 0 … 1, got {value}")
        if self.shortlist is not None and self.shortlist < 0:
            raise ValueError(f"shortlist must be at least 0, got {self.shortlist}")

    @property
    def enabled(self) -> bool:
        """Whether anything is shown at all."""
        return self.first > 0 or self.last > 0

    def ratio(self, progress: float) -> float:
        """Return τ, which changes linearly through training."""
        return self.first + (self.last - self.first) * min(max(progress, 0.0), 1.0)


@dataclass(frozen=True)
class Revealed:
    """What nodes are shown: which of them and, for those, position and token of the target."""

    mask: Bool[Tensor, "B m"]
    position: Int[Tensor, "B m"]
    token: Int[Tensor, "B m"]


def noise(seeds: Int[Tensor, "B"], nodes: int) -> Float[Tensor, "B m"]:
    """Draw numbers from 0 to 1 for the nodes of each sentence: splitmix64 of its seed and the node."""
    node = torch.arange(1, nodes + 1, device=seeds.device)
    x = _mixed(seeds).unsqueeze(1) + node * GOLDEN
    return (_mixed(x) >> 11 & 2**53 - 1).double() / 2**53


def _mixed(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Scramble 64-bit numbers; products wrap around, and shifts fill up with zeros."""
    x = (x ^ (x >> 30 & 2**34 - 1)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & 2**37 - 1)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31 & 2**33 - 1)


def reveal(
    position: Int[Tensor, "B m"],
    predicted: Int[Tensor, "B m"],
    target: Padded,
    ratio: float,
    noise: Float[Tensor, "B m"],
) -> Revealed:
    """Choose nodes of the best structure to be shown their tokens.

    `position` says which target position a node emits there, -1 for none, and `predicted` what it would emit.
    Of n nodes that emit something, `correct` would emit the right token; `round(τ · (n - correct))` are shown
    theirs, those with the least `noise`.
    """
    aligned = position >= 0
    known = position.clamp(min=0)
    token = target.ids.masked_fill(~target.mask, 0).gather(1, known)
    correct = (aligned & (predicted == token)).sum(1)
    wanted = (ratio * (aligned.sum(1) - correct)).round()
    rank = noise.masked_fill(~aligned, torch.inf).argsort(1).argsort(1)
    return Revealed(aligned & (rank < wanted.unsqueeze(1)), known, token)
