"""The kernels behind torch functions."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.ctc import reference
from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.semiring import LogSemiring
from pcfgnat.structures.transforms import differentiable_gradients, fold_into_batch

# tokens [B, T, N], blanks [B, T], repeated [B, N], slots [B], lengths [B], as the kernels want them
Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """log P of every target, with the posteriors as its gradient."""
    found: tuple[Tensor, ...] = _LogPartition.apply(  # type: ignore[no-untyped-call]
        weights.tokens, weights.blanks, weights.repeated, weights.num_slots, weights.lengths
    )
    return found[0]


def best(weights: Weights) -> tuple[Int[Tensor, "B T"], Float[Tensor, "B"]]:
    """Return the best alignment of every target: the position that each slot emits, and its score."""
    from pcfgnat.structures.ctc.kernels import best_batch

    position = np.full(weights.blanks.shape, -1, dtype=np.int64)
    score = np.empty(len(position))
    best_batch(_problem(weights), score, position)
    return torch.from_numpy(position), torch.from_numpy(score).to(weights.tokens.dtype)


class _LogPartition(torch.autograd.Function):
    """log P and the table of the forward pass, from which the backward pass makes the gradients."""

    @staticmethod
    def forward(
        tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
    ) -> tuple[Tensor, ...]:
        from pcfgnat.structures.ctc.kernels import forward_batch

        problem = _problem(Weights(tokens, blanks, repeated, num_slots, lengths))
        batch, slots, positions = tokens.shape
        table = np.empty((batch, slots, 2 * positions + 1))
        log_z = np.empty(batch)
        forward_batch(problem, table, log_z)
        exact = torch.from_numpy(log_z)
        return exact.to(tokens.dtype, copy=True), exact, torch.from_numpy(table)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    @profiled(DYNAMIC_PROGRAM)
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        from pcfgnat.structures.ctc.kernels import backward_batch

        if grad is None:
            return (None,) * 5
        tokens, blanks, *others, log_z, table = ctx.saved_tensors
        weights = Weights(tokens, blanks, *others)
        if torch.is_grad_enabled():  # create_graph or torch.func
            found = differentiable_gradients(partial(_plain, weights), (tokens, blanks), grad)
            return (*found, None, None, None)
        problem = _problem(weights)
        weight = grad.detach().to(torch.float64).contiguous().numpy()
        gradients = (np.zeros_like(problem[0]), np.zeros_like(problem[1]))
        backward_batch(problem, table.numpy(), log_z.numpy(), weight, *gradients)
        grad_tokens, grad_blanks = (torch.from_numpy(gradient) for gradient in gradients)
        return grad_tokens, grad_blanks, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return fold_into_batch(_LogPartition.apply, info.batch_size, in_dims, arguments)


def _plain(weights: Weights, tokens: Tensor, blanks: Tensor) -> Tensor:
    """Return log P by the reference, whose derivatives of any order torch knows."""
    return reference.total(LogSemiring(), replace(weights, tokens=tokens, blanks=blanks))[0]


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
