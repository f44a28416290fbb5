"""The kernels as torch operators, with shapes for tracing, and the calls of them on tensors that exist.

Triton itself is imported when an operator runs on numbers: shapes can be traced without it.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.structures.ctc import reference
from pcfgnat.structures.ctc.reference import Weights
from pcfgnat.structures.semiring import NEG_INF, LogSemiring
from pcfgnat.structures.transforms import differentiable_gradients, fold_into_batch

LARGEST_TILE, SMALLEST_TILE = 512, 32  # states at a time


def launch_sizes(states: int) -> dict[str, int]:
    """Return the tile for so many states, all of them if that is possible, and its warps."""
    tile = min(max(1 << (states - 1).bit_length(), SMALLEST_TILE), LARGEST_TILE)
    return {"TILE": tile, "num_warps": max(tile // 128, 1), "num_stages": 1}


@torch.library.custom_op("pcfgnat::ctc_forward", mutates_args=())
def ctc_forward(
    tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return log P `[B]`, and the table that its gradient needs."""
    from pcfgnat.structures.ctc.triton import kernels

    table = _table(tokens)
    total = table.new_empty(len(table))
    _run(kernels.ctc_forward_kernel, table.shape, tokens, blanks, repeated, num_slots, lengths, table, total)
    return total, table


@ctc_forward.register_fake
def _(
    tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    table = _table(tokens)
    return table.new_empty(len(table)), table


@torch.library.custom_op("pcfgnat::ctc_backward", mutates_args=())
def ctc_backward(
    tokens: Tensor,
    blanks: Tensor,
    repeated: Tensor,
    num_slots: Tensor,
    lengths: Tensor,
    total: Tensor,
    table: Tensor,
    weights: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of tokens and blanks for the gradients `weights` of log P."""
    from pcfgnat.structures.ctc.triton import kernels

    batch, _, states = table.shape
    gradients = table.new_zeros(tokens.shape), table.new_zeros(blanks.shape)
    parts = table.new_zeros(batch, 2, 3, states + 2)
    given = (repeated, num_slots, lengths, table, total, weights, parts)
    _run(kernels.ctc_backward_kernel, table.shape, *given, *gradients)
    return gradients[0].to(tokens.dtype), gradients[1].to(blanks.dtype)


@ctc_backward.register_fake
def _(
    tokens: Tensor,
    blanks: Tensor,
    repeated: Tensor,
    num_slots: Tensor,
    lengths: Tensor,
    total: Tensor,
    table: Tensor,
    weights: Tensor,
) -> tuple[Tensor, Tensor]:
    return tokens.new_empty(tokens.shape), blanks.new_empty(blanks.shape)


@torch.library.custom_op("pcfgnat::ctc_best", mutates_args=())
def ctc_best(
    tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the position that each slot emits in the best alignment `[B, T]`, and its score `[B]`."""
    from pcfgnat.structures.ctc.triton import kernels

    table = _table(tokens)
    score = table.new_empty(len(table))
    position = torch.full(blanks.shape, -1, dtype=torch.int64, device=blanks.device)
    given = (tokens, blanks, repeated, num_slots, lengths)
    _run(kernels.ctc_best_kernel, table.shape, *given, table, score, position)
    return position, score


@ctc_best.register_fake
def _(
    tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(tokens.dtype, torch.float32)
    return (
        blanks.new_empty(blanks.shape, dtype=torch.int64),
        tokens.new_empty(tokens.shape[0], dtype=wide),
    )


def _table(tokens: Float[Tensor, "B T N"]) -> Float[Tensor, "B T S"]:
    """Return an empty table, in float32 at least."""
    batch, slots, width = tokens.shape
    wide = torch.promote_types(tokens.dtype, torch.float32)
    return tokens.new_full((batch, slots, 2 * width + 1), NEG_INF, dtype=wide)


def _run(kernel: Any, size: torch.Size, *arguments: Tensor) -> None:
    """Launch one program for every sentence of a table of this size; none where there is no sentence."""
    batch, slots, states = size
    if batch:
        given = (argument.contiguous() for argument in arguments)
        kernel[(batch,)](*given, slots, states // 2, **launch_sizes(states))


def plain_log_partition(
    tokens: Float[Tensor, "B T N"],
    blanks: Float[Tensor, "B T"],
    repeated: Bool[Tensor, "B N"],
    num_slots: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
) -> Float[Tensor, "B"]:
    """Return log P by the reference, in float32 at least; torch knows its derivatives of any order."""
    wide = torch.promote_types(tokens.dtype, torch.float32)
    weights = Weights(tokens.to(wide), blanks.to(wide), repeated, num_slots, lengths)
    return reference.total(LogSemiring(), weights)[0]


class _LogPartition(torch.autograd.Function):
    """log P `[B]`; not the operator's own autograd, as torch.func does not know that."""

    @staticmethod
    def forward(
        tokens: Tensor, blanks: Tensor, repeated: Tensor, num_slots: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        total, table = ctc_forward(tokens, blanks, repeated, num_slots, lengths)
        return total, table

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        tokens, blanks, *others, total, table = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph or torch.func

            def plain(tokens: Tensor, blanks: Tensor) -> Tensor:
                return plain_log_partition(tokens, blanks, *others)

            return (*differentiable_gradients(plain, (tokens, blanks), grad), None, None, None)
        return (*ctc_backward(tokens, blanks, *others, total.detach(), table, grad), None, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return fold_into_batch(_LogPartition.apply, info.batch_size, in_dims, arguments)


def log_partition(
    tokens: Float[Tensor, "B T N"],
    blanks: Float[Tensor, "B T"],
    repeated: Bool[Tensor, "B N"],
    num_slots: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
) -> Float[Tensor, "B"]:
    """Return log P of every target by the kernels, with the posteriors as its gradient."""
    found: tuple[Tensor, ...] = _LogPartition.apply(  # type: ignore[no-untyped-call]
        tokens, blanks, repeated, num_slots, lengths
    )
    return found[0]
