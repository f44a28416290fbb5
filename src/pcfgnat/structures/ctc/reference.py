"""The CTC recursion in plain torch, over any semiring; the kernels beside it are compared with it."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.structures.semiring import Semiring


@dataclass(frozen=True)
class Weights:
    """All that the recursion needs: what each slot may emit, which tokens repeat, true sizes."""

    tokens: Float[Tensor, "B T N"]
    blanks: Float[Tensor, "B T"]
    repeated: Bool[Tensor, "B N"]  # whether a token equals the one before it
    num_slots: Int[Tensor, "B"]
    lengths: Int[Tensor, "B"]


def total(semiring: Semiring, weights: Weights) -> Float[Tensor, "K B"]:
    """Total weight of all alignments of the whole target.

    State 2i stands in the blank before token i, state 2i + 1 on token i. A slot stays, goes on to the next
    state, or skips the blank between two tokens that differ: equal ones would collapse into one without it.
    """
    extended = _interleave(weights)  # [B, T, S]
    emitted = semiring.lift(extended)
    impossible = semiring.zero(extended[:, 0])
    at_start = torch.arange(extended.shape[2], device=extended.device) == 0
    state = torch.where(at_start, semiring.one(extended[:, 0]), impossible)
    may_skip = _may_skip(weights)
    for t in range(extended.shape[1]):
        skipping = torch.where(may_skip, _shift(state, impossible, 2), impossible)
        reached = semiring.plus([state, _shift(state, impossible, 1), skipping])
        moved = semiring.times(reached, emitted[:, :, t])
        state = torch.where((t < weights.num_slots).unsqueeze(1), moved, state)
    in_blank = _at(state, 2 * weights.lengths)
    on_token = _at(state, (2 * weights.lengths - 1).clamp(min=0))
    on_token = torch.where(weights.lengths > 0, on_token, impossible[..., 0])
    return semiring.plus([in_blank, on_token])


def _interleave(weights: Weights) -> Float[Tensor, "B T S"]:
    """Weights of the states: blank, token, blank, …, token, blank."""
    blanks = weights.blanks.unsqueeze(2)
    pairs = torch.stack([blanks.expand_as(weights.tokens), weights.tokens], -1)
    return torch.cat([pairs.flatten(2), blanks], 2)


def _may_skip(weights: Weights) -> Bool[Tensor, "B S"]:
    fresh = ~weights.repeated
    return torch.constant_pad_nd(torch.stack([torch.zeros_like(fresh), fresh], -1).flatten(1), (0, 1))


def _shift(
    state: Float[Tensor, "K B S"], impossible: Float[Tensor, "K B S"], by: int
) -> Float[Tensor, "K B S"]:
    """Move the value of state s to s + by."""
    return torch.cat([impossible[..., :by], state], -1)[..., : state.shape[-1]]


def _at(state: Float[Tensor, "K B S"], index: Int[Tensor, "B"]) -> Float[Tensor, "K B"]:
    return state.gather(2, index.expand(len(state), -1).unsqueeze(2)).squeeze(2)
