"""The kernels behind torch functions: gradients, threads over the batch, and when they apply."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.kernels.inside import RESCALE, inside_batch
from pcfgnat.grammar.kernels.outside import outside_batch
from pcfgnat.grammar.kernels.viterbi import best_batch
from pcfgnat.grammar.prefix_plan import prefix_plan
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.grammar.tables import BestByLength, Sentences, new_tables, run
from pcfgnat.grammar.tables import best_by_length as best_by_length_of_arrays
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.rhpcfg import reference
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.semiring import LogSemiring
from pcfgnat.structures.transforms import differentiable_gradients, fold_into_batch

# Per dtype: scaled rules and spans below exp(cutoff) count as 0, and a sum of products above `trust` is exact
# all the same, because what it lacks is smaller by exp(-27) at least.
CUTOFF = {torch.float32: -87.0, torch.float64: -690.0}
TRUST = {dtype: math.exp(cutoff + RESCALE + 27.0) for dtype, cutoff in CUTOFF.items()}


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """log P of every target, with the posteriors as its gradient."""
    found: tuple[Tensor, ...] = _LogPartition.apply(  # type: ignore[no-untyped-call]
        weights.tokens, weights.chain, weights.prefix, weights.chain_lengths, weights.lengths, weights.tree
    )
    return found[0]


def best(weights: Weights) -> tuple[Int[Tensor, "B m"], Float[Tensor, "B"]]:
    """Return the best derivation of every target: the position that each symbol emits, and the score."""
    batch = _sentences(weights)
    position = np.empty(batch.tokens.shape[:2], dtype=np.int64)
    score = np.empty(len(position))
    _run(best_batch, batch, score, position)
    return torch.from_numpy(position), torch.from_numpy(score).to(weights.tokens.dtype)


@dataclass(frozen=True)
class LengthTable:
    """Best derivation of every length, when each symbol emits its best token wherever it stands."""

    scores: Float[Tensor, "B S"]
    found: BestByLength

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the symbols of the best derivation of the given length of each sentence, in order."""
        return self.found.nodes(lengths)


def best_by_length(
    tree: SupportTree,
    tokens: Float[Tensor, "B m"],
    chain: Float[Tensor, "B C d C"],
    prefix: Float[Tensor, "B C R"],
    chain_lengths: Int[Tensor, "B"],
    max_length: int,
) -> LengthTable:
    """Viterbi over (symbol, length) (paper, section 3.4), all lengths in one pass."""
    found = best_by_length_of_arrays(
        tokens.detach().numpy(),
        chain.detach().numpy(),
        prefix.detach().numpy(),
        chain_lengths.numpy(),
        max_length,
        torch.get_num_threads(),
    )
    return LengthTable(torch.from_numpy(found.scores), found)


class _LogPartition(torch.autograd.Function):
    """log P and the tables of the inside pass, from which the outside pass makes the gradients."""

    @staticmethod
    def forward(
        tokens: Tensor,
        chain: Tensor,
        prefix: Tensor,
        chain_lengths: Tensor,
        lengths: Tensor,
        tree: SupportTree,
    ) -> tuple[Tensor, ...]:
        batch = _sentences(Weights(tree, tokens, chain, prefix, chain_lengths, lengths))
        count, nodes, block, _ = batch.chain.shape
        shares = np.empty((count, nodes, len(batch.states), batch.tokens.shape[2]), dtype=batch.chain.dtype)
        maxima = np.empty((count, nodes, block), dtype=batch.chain.dtype)
        tables = (*new_tables(batch), shares, maxima)
        log_z = np.empty(count)
        _run(inside_batch, batch, *_limits(chain), *tables, log_z)
        return torch.from_numpy(log_z).to(tokens.dtype), *map(torch.from_numpy, tables)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.tree = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    @profiled(DYNAMIC_PROGRAM)
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 6
        tokens, chain, prefix, *sizes = ctx.saved_tensors[:5]
        weights = Weights(ctx.tree, tokens, chain, prefix, *sizes)
        if torch.is_grad_enabled():  # create_graph or torch.func
            found = differentiable_gradients(partial(_plain, weights), (tokens, chain, prefix), grad)
            return (*found, None, None, None)
        tables = [table.numpy() for table in ctx.saved_tensors[5:]]
        batch = _sentences(weights)
        given = (batch.chain, batch.prefix, batch.tokens)
        weight = grad.detach().to(torch.float64).numpy()
        gradients = tuple(np.empty_like(array) for array in given)
        _run(outside_batch, batch, *_limits(chain), *tables, weight, *gradients)
        grad_chain, grad_prefix, grad_tokens = map(torch.from_numpy, gradients)
        return (
            grad_tokens.to(tokens.dtype),
            grad_chain,
            grad_prefix.to(prefix.dtype),
            None,
            None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return fold_into_batch(_LogPartition.apply, info.batch_size, in_dims, arguments)


def _plain(weights: Weights, tokens: Tensor, chain: Tensor, prefix: Tensor) -> Tensor:
    """Return log P by the reference, whose derivatives of any order torch knows."""
    return reference.total(LogSemiring(), replace(weights, tokens=tokens, chain=chain, prefix=prefix))[0]


def _limits(chain: Tensor) -> tuple[float, float]:
    return CUTOFF[chain.dtype], TRUST[chain.dtype]


def _sentences(weights: Weights) -> Sentences:
    dtype, plan = weights.chain.dtype, prefix_plan(weights.tree.prefix_depth)
    return Sentences(
        chain=_array(weights.chain, dtype),
        prefix=_array(weights.prefix, dtype),
        tokens=_array(weights.tokens, dtype),
        chain_lengths=_array(weights.chain_lengths, torch.int64),
        lengths=_array(weights.lengths, torch.int64),
        states=plan.states,
        splits=plan.splits,
    )


def _run(kernel: Callable[..., None], batch: Sentences, *arguments: Any) -> None:
    """Call a kernel with as many threads as torch uses."""
    run(kernel, torch.get_num_threads(), batch, *arguments)


def _array(tensor: Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.detach().to(dtype).contiguous().numpy()
