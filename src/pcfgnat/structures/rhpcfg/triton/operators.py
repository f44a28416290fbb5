"""The kernels as torch operators: with shapes for tracing, gradients, and vmap.

Triton itself is imported when an operator runs on numbers: shapes can be traced without it.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.prefix_plan import prefix_plan
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.rhpcfg.reference import legal_chain_rules, main_chain
from pcfgnat.structures.semiring import NEG_INF, LogSemiring
from pcfgnat.structures.transforms import differentiable_gradients, fold_into_batch


@torch.library.custom_op("pcfgnat::chain_inside", mutates_args=())
def chain_inside(
    heads: Tensor, chain: Tensor, chain_lengths: Tensor, lengths: Tensor, depth: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log P `[B]`, and the tables that its gradient needs."""
    from pcfgnat.structures.rhpcfg.triton import launch

    spans, rights = launch.inside(heads, chain, chain_lengths, lengths, depth)
    return spans[:, 0, 0].clone(), spans, rights


@chain_inside.register_fake
def _(
    heads: Tensor, chain: Tensor, chain_lengths: Tensor, lengths: Tensor, depth: int
) -> tuple[Tensor, Tensor, Tensor]:
    batch, nodes, _, width = heads.shape
    return heads.new_empty(batch), heads.new_empty(batch, nodes, width), torch.empty_like(heads)


@torch.library.custom_op("pcfgnat::chain_outside", mutates_args=())
def chain_outside(
    heads: Tensor,
    chain: Tensor,
    chain_lengths: Tensor,
    lengths: Tensor,
    spans: Tensor,
    rights: Tensor,
    weights: Tensor,
    depth: int,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of heads and chain for the gradients `weights` of log P."""
    from pcfgnat.structures.rhpcfg.triton import launch

    tables, sizes = (spans, rights), (chain_lengths, lengths)
    grad_heads, grad_chain = launch.outside(heads, chain, sizes, tables, weights, depth)
    return grad_heads, grad_chain.to(chain.dtype)


@chain_outside.register_fake
def _(
    heads: Tensor,
    chain: Tensor,
    chain_lengths: Tensor,
    lengths: Tensor,
    spans: Tensor,
    rights: Tensor,
    weights: Tensor,
    depth: int,
) -> tuple[Tensor, Tensor]:
    return heads.new_empty(heads.shape), chain.new_empty(chain.shape)


@torch.library.custom_op("pcfgnat::chain_best", mutates_args=())
def chain_best(
    heads: Tensor, chain: Tensor, chain_lengths: Tensor, lengths: Tensor, depth: int
) -> tuple[Tensor, Tensor]:
    """Return the best span `[B, C, N]` of each node from each position, and the first step of it."""
    from pcfgnat.structures.rhpcfg.triton import launch

    return launch.best(heads, chain, chain_lengths, lengths, depth)


@chain_best.register_fake
def _(
    heads: Tensor, chain: Tensor, chain_lengths: Tensor, lengths: Tensor, depth: int
) -> tuple[Tensor, Tensor]:
    batch, nodes, _, width = heads.shape
    spans = heads.new_empty(batch, nodes, width)
    return spans, torch.empty_like(spans, dtype=torch.int32)


@torch.library.custom_op("pcfgnat::chain_trace", mutates_args=())
def chain_trace(
    spans: Tensor, back: Tensor, chain_lengths: Tensor, lengths: Tensor, starts: Tensor, depth: int
) -> Tensor:
    """Return 1 at the heads `[B, C, Q, N]` along the best derivation from each start, 0 elsewhere."""
    from pcfgnat.structures.rhpcfg.triton import launch

    return launch.trace(spans, back, (chain_lengths, lengths), starts, depth)


@chain_trace.register_fake
def _(
    spans: Tensor, back: Tensor, chain_lengths: Tensor, lengths: Tensor, starts: Tensor, depth: int
) -> Tensor:
    batch, nodes, width = spans.shape
    return spans.new_empty(batch, nodes, len(prefix_plan(depth).states), width)


def plain_log_partition(
    heads: Float[Tensor, "B C Q N"],
    chain: Float[Tensor, "B C d C"],
    chain_lengths: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    depth: int,
) -> Float[Tensor, "B"]:
    """Return log P by the reference's recursion, whose derivatives of any order torch knows."""
    numbers = prefix_plan(depth).states.tolist()
    by_state = {(offset, width): heads[None, :, :, q] for q, (offset, width) in enumerate(numbers)}
    legal = legal_chain_rules(SupportTree(chain.shape[1], depth), chain_lengths)
    rules = torch.where(legal, chain, NEG_INF).to(heads.dtype).unsqueeze(0)
    return main_chain(LogSemiring(), by_state, rules, chain_lengths, lengths)[0, :, 0]


class _LogPartition(torch.autograd.Function):
    """log P `[B]` of heads and chain; not the operator's own autograd, as torch.func does not know that."""

    @staticmethod
    def forward(
        heads: Tensor, chain: Tensor, chain_lengths: Tensor, lengths: Tensor, depth: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        total, spans, rights = chain_inside(heads, chain, chain_lengths, lengths, depth)
        return total, spans, rights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.depth = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 5
        heads, chain, chain_lengths, lengths, spans, rights = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph or torch.func

            def plain(heads: Tensor, chain: Tensor) -> Tensor:
                return plain_log_partition(heads, chain, chain_lengths, lengths, ctx.depth)

            return (*differentiable_gradients(plain, (heads, chain), grad), None, None, None)
        given = (heads, chain, chain_lengths, lengths, spans, rights, grad, ctx.depth)
        return (*chain_outside(*given), None, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return fold_into_batch(_LogPartition.apply, info.batch_size, in_dims, arguments)


def log_partition(
    heads: Float[Tensor, "B C Q N"],
    chain: Float[Tensor, "B C d C"],
    chain_lengths: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    depth: int,
) -> Float[Tensor, "B"]:
    """Return log P of every target by the kernels, with the posteriors as its gradient."""
    found: tuple[Tensor, ...] = _LogPartition.apply(  # type: ignore[no-untyped-call]
        heads, chain, chain_lengths, lengths, depth
    )
    return found[0]
