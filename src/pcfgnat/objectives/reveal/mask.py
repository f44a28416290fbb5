"""Masks (Ghazvininejad et al. 2019): a random part of the target is hidden, the rest is shown."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.networks import Batch, CanvasIds
from pcfgnat.nn import waiting
from pcfgnat.objectives.randomness import noise, own_seeds
from pcfgnat.structures import Padded
from pcfgnat.text.special import SPECIAL_TOKENS

MASK = SPECIAL_TOKENS.unk  # what blank canvases hold


@dataclass(frozen=True)
class Gold:
    """Targets on their canvases: bos first, eos last, and `inner` marks the n tokens between them."""

    ids: Int[Tensor, "B m"]
    lengths: Int[Tensor, "B"]
    inner: Bool[Tensor, "B m"]

    @classmethod
    def of(cls, target: Padded, lengths: Int[Tensor, "B"]) -> "Gold":
        """Put targets on canvases of these lengths, which are theirs, but 2 at least."""
        known = waiting.at_hand(lengths)
        blank = CanvasIds.blank(lengths, None if known else max(target.ids.shape[1], 2))
        position = torch.arange(blank.ids.shape[1], device=lengths.device)
        inner = (position > 0) & (position < target.lengths.unsqueeze(1) - 1)
        ids, width = blank.ids.clone(), min(target.ids.shape[1], len(position))
        ids[:, :width] = torch.where(inner[:, :width], target.ids[:, :width], ids[:, :width])
        return cls(ids, lengths, inner)

    @property
    def counts(self) -> Int[Tensor, "B"]:
        """n, the number of inner tokens of each target."""
        return self.inner.sum(1)

    def shown(self, ids: Int[Tensor, "B m"], hidden: Bool[Tensor, "B m"]) -> CanvasIds:
        """Return canvases of these tokens, some of which are hidden."""
        return CanvasIds(ids.masked_fill(hidden, MASK), self.lengths)


@dataclass(frozen=True)
class UniformMask:
    """A number of tokens k, uniform on 1 … n, and so many positions, each set of them equally probable.

    streams: of the random numbers for k and for the positions
    least:   k begins with 1 + ⌊least · n⌋
    most:    k stays below 1 + most · n
    """

    streams: tuple[int, int]
    least: float = 0.0
    most: float = 1.0

    def hidden(self, batch: Batch, gold: Gold) -> Bool[Tensor, "B m"]:
        """Draw for each sentence what it shall not be shown."""
        seeds = own_seeds(batch)
        chance = noise(seeds, 1, self.streams[0])[:, 0]
        share = self.least + (self.most - self.least) * chance
        counts = (1 + (share * gold.counts).floor()).minimum(gold.counts)
        return random_subset(noise(seeds, gold.inner.shape[1], self.streams[1]), gold.inner, counts)


def random_subset(
    chance: Float[Tensor, "B m"], among: Bool[Tensor, "B m"], counts: Float[Tensor, "B"] | Int[Tensor, "B"]
) -> Bool[Tensor, "B m"]:
    """Mark so many positions of each sentence among some: those that drew the least numbers."""
    rank = chance.masked_fill(~among, torch.inf).argsort(dim=1, stable=True).argsort(1)
    return among & (rank < counts.unsqueeze(1))
