"""The kernels behind torch functions.

Not `torch.nn.functional.ctc_loss`: its gradient is right only behind a log-softmax, as it contains
`exp(log_probs)`, and NaN where a log-probability is -inf.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled

# tokens [B, T, N], blanks [B, T], repeated [B, N], slots [B], lengths [B], as the kernels want them
Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """log P of every target, with the posteriors as its gradient."""
    return _LogPartition.apply(  # type: ignore[no-any-return,no-untyped-call]
        weights.tokens, weights.blanks, weights.repeated, weights.num_slots, weights.lengths
    )


def best(weights: Weights) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B"]]:
    """Return the best alignment of every target: the position that each slot emits, and its score."""
    from pcfgnat.structures.ctc.kernels import best_batch

    position = np.full(weights.blanks.shape, -1, dtype=np.int64)
    score = np.empty(len(position))
    best_batch(_problem(weights), score, position)
    return torch.from_numpy(position), torch.from_numpy(score).to(weights.tokens.dtype)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
    ) -> Tensor:
        from pcfgnat.structures.ctc.kernels import forward_batch

        problem = _problem(Weights(tokens, blanks, repeated, num_slots, lengths))
        batch, slots, positions = tokens.shape
        tables = np.empty((batch, slots, 2 * positions + 1))
        log_z = np.empty(batch)
        forward_batch(problem, tables, log_z)
        ctx.save_for_backward(tokens, blanks)
        ctx.problem, ctx.tables, ctx.log_z = problem, tables, log_z
        return torch.from_numpy(log_z).to(tokens.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    @profiled(DYNAMIC_PROGRAM)
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from pcfgnat.structures.ctc.kernels import backward_batch

        _ = ctx.saved_tensors  # notices weights that were changed in place since
        weight = grad.detach().to(torch.float64).contiguous().numpy()
        gradients = (np.zeros_like(ctx.problem[0]), np.zeros_like(ctx.problem[1]))
        backward_batch(ctx.problem, ctx.tables, ctx.log_z, weight, *gradients)
        grad_tokens, grad_blanks = (torch.from_numpy(gradient) for gradient in gradients)
        return grad_tokens, grad_blanks, None, None, None


def _problem(weights: Weights) -> Problem:
    dtype = weights.tokens.dtype
    return (
        _array(weights.tokens, dtype),
        _array(weights.blanks, dtype),
        _array(weights.repeated, torch.bool),
        _array(weights.num_slots, torch.int64),
        _array(weights.lengths, torch.int64),
    )


def _array(tensor: Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.detach().to(dtype).contiguous().numpy()
