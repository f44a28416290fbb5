"""Aligned cross-entropy (Ghazvininejad et al. 2020): the cheapest monotone alignment of slots and target.

`A[i, j]` is the least cost when i tokens of the target and j slots are done:

    A[0, 0] = 0     A[0, j] = A[0, j-1] - log P_j(ε)     A[i, 0] = A[i-1, 0] - δ log P_1(y_i)
    A[i, j] = min( A[i-1, j-1] - log P_j(y_i)       slot j emits token i
                   A[i, j-1]   - log P_j(ε)         slot j emits the blank
                   A[i-1, j]   - δ log P_j(y_i) )   token i is skipped, at the expense of slot j

Its weights do not sum to 1, so this is not a distribution over sentences.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.backend import use_numba
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled

# Greater costs count as so much when paths are compared: a difference of two infinities is not a number.
HIGHEST_COST = 1e4


@dataclass(frozen=True)
class Alignment:
    """The cheapest path, as what each log-probability counts in minus its cost.

    tokens: 1 where a slot emits a token of the target, δ where the token is skipped at the slot's expense
    blanks: 1 where a slot emits the blank
    """

    tokens: Float[Tensor, "B m n"]
    blanks: Float[Tensor, "B m"]


@profiled(DYNAMIC_PROGRAM)
def best_alignment(
    tokens: Float[Tensor, "B m n"],
    blanks: Float[Tensor, "B m"],
    slots: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    skip_penalty: float,
) -> Alignment:
    """Return the cheapest path of each sentence, from log-probabilities; without gradient.

    `tokens[b, j, i]` is that of token i of the target at slot j. Sentence b has `slots[b]` slots and
    `lengths[b]` tokens, at least one slot if it has a token; the rest is padding and is never looked at. On a
    tie a slot rather emits its token than a token is skipped. Compiled on the CPU; elsewhere the path is read
    off the gradient of the cost.
    """
    if use_numba(tokens, blanks):
        return _compiled(tokens, blanks, slots, lengths, skip_penalty)
    with torch.enable_grad():
        inside = torch.arange(tokens.shape[1], device=slots.device) < slots.unsqueeze(1)
        known = torch.arange(tokens.shape[2], device=slots.device) < lengths.unsqueeze(1)
        of_tokens = _costs(tokens, inside.unsqueeze(2) & known.unsqueeze(1))
        of_blanks = _costs(blanks, inside)
        total = _cheapest(of_tokens, of_blanks, slots, lengths, skip_penalty).sum()
    found = torch.autograd.grad(total, (of_tokens, of_blanks), materialize_grads=True)
    return Alignment(*(part.to(tokens.dtype) for part in found))


def _compiled(
    tokens: Float[Tensor, "B m n"],
    blanks: Float[Tensor, "B m"],
    slots: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    skip_penalty: float,
) -> Alignment:
    from pcfgnat.structures.aligned_kernels import best_batch  # numba takes a moment

    scores = [np.ascontiguousarray(part.detach().numpy()) for part in (tokens, blanks)]
    problem = (scores[0], scores[1], slots.numpy(), lengths.numpy())
    found = np.zeros(tokens.shape), np.zeros(blanks.shape)
    best_batch(problem, skip_penalty, HIGHEST_COST, *found)
    return Alignment(*(torch.from_numpy(part).to(tokens.dtype) for part in found))


def _costs(log_probs: Tensor, real: Tensor) -> Tensor:
    """Return costs that can be added and subtracted, in double precision, as leaves of a new graph."""
    costs = torch.where(real, -log_probs.detach().double(), 0.0)
    return costs.clamp(max=HIGHEST_COST).requires_grad_()


def _cheapest(
    tokens: Float[Tensor, "B m n"],
    blanks: Float[Tensor, "B m"],
    slots: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    skip_penalty: float,
) -> Float[Tensor, "B"]:
    """Return `A[n, m]`, a row at a time, on any device.

    Along a row blanks only add up, so it is `c + cummin(base - c)`, where c are the blanks' sums and `base`
    is the better of emitting and skipping.
    """
    nothing = blanks.new_zeros(len(blanks), 1)
    summed = torch.cat([nothing, blanks.cumsum(1)], 1)  # [B, m + 1]
    row = summed
    for i in range(tokens.shape[2] if tokens.shape[1] else 0):
        own = tokens[:, :, i]
        emitted, skipped = row[:, :-1] + own, row[:, 1:] + skip_penalty * own
        before_all = row[:, :1] + skip_penalty * own[:, :1]
        base = torch.cat([before_all, torch.where(emitted <= skipped, emitted, skipped)], 1)
        following = summed + (base - summed).cummin(1).values
        row = torch.where(i < lengths.unsqueeze(1), following, row)
    return row.gather(1, slots.unsqueeze(1)).squeeze(1)
