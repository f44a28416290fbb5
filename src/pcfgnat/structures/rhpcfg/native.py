"""The kernels behind torch functions: gradients, threads over the batch, and when they apply."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.rhpcfg.kernels.inside import RESCALE, inside_batch
from pcfgnat.structures.rhpcfg.kernels.outside import outside_batch
from pcfgnat.structures.rhpcfg.kernels.viterbi import best_batch, tables_batch, trace_batch
from pcfgnat.structures.rhpcfg.prefix_plan import prefix_plan
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.rhpcfg.support_tree import SupportTree

# Per dtype: scaled rules and spans below exp(cutoff) count as 0, and a sum of products above `trust` is exact
# all the same, because what it lacks is smaller by exp(-27) at least.
CUTOFF = {torch.float32: -87.0, torch.float64: -690.0}
TRUST = {dtype: math.exp(cutoff + RESCALE + 27.0) for dtype, cutoff in CUTOFF.items()}
# Less work than this (products of rules and positions) is not worth a second thread.
MIN_WORK_PER_THREAD = 100_000


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """log P of every target, with the posteriors as its gradient."""
    return _LogPartition.apply(  # type: ignore[no-any-return,no-untyped-call]
        weights.tokens, weights.chain, weights.prefix, weights.chain_lengths, weights.lengths, weights.tree
    )


def best(weights: Weights) -> tuple[Int[Tensor, "B m"], Float[Tensor, "B"]]:
    """Return the best derivation of every target: the position that each symbol emits, and the score."""
    batch = _sentences(weights)
    position = np.full(batch.tokens.shape[:2], -1, dtype=np.int64)
    score = np.full(len(position), -np.inf)
    _run(best_batch, batch, score, position)
    return torch.from_numpy(position), torch.from_numpy(score).to(weights.tokens.dtype)


class Sentences(NamedTuple):
    """A batch as the kernels take it: contiguous arrays, scores of one dtype, and a PrefixPlan."""

    chain: np.ndarray
    prefix: np.ndarray
    tokens: np.ndarray
    chain_lengths: np.ndarray
    lengths: np.ndarray
    states: np.ndarray
    splits: np.ndarray


@dataclass(frozen=True)
class LengthTable:
    """Best derivation of every length, when each symbol emits its best token wherever it stands."""

    scores: Float[Tensor, "B S"]
    batch: Sentences
    tables: tuple[np.ndarray, np.ndarray]

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the symbols of the best derivation of the given length of each sentence, in order."""
        position = np.full(self.batch.tokens.shape[:2], -1, dtype=np.int64)
        _run(trace_batch, self.batch, *self.tables, np.array(lengths, dtype=np.int64), position)
        return [tuple(np.flatnonzero(row >= 0).tolist()) for row in position]


def best_by_length(
    tree: SupportTree,
    tokens: Float[Tensor, "B m"],
    chain: Float[Tensor, "B C d C"],
    prefix: Float[Tensor, "B C R"],
    chain_lengths: Int[Tensor, "B"],
    max_length: int,
) -> LengthTable:
    """Viterbi over (symbol, length) (paper, section 3.4), all lengths in one pass."""
    everywhere = tokens.unsqueeze(2).expand(-1, -1, max_length)
    lengths = torch.full_like(chain_lengths, max_length)
    batch = _sentences(Weights(tree, everywhere, chain, prefix, chain_lengths, lengths))
    tables = _new_tables(batch)
    _run(tables_batch, batch, *tables)
    scores = np.full((len(tables[0]), max_length + 1), -np.inf)
    scores[:, 1:] = tables[0][:, 0, ::-1]
    return LengthTable(torch.from_numpy(scores), batch, tables)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tokens: Tensor,
        chain: Tensor,
        prefix: Tensor,
        chain_lengths: Tensor,
        lengths: Tensor,
        tree: SupportTree,
    ) -> Tensor:
        batch = _sentences(Weights(tree, tokens, chain, prefix, chain_lengths, lengths))
        limits = (CUTOFF[chain.dtype], TRUST[chain.dtype])
        count, nodes, block, _ = batch.chain.shape
        shares = np.empty((count, nodes, len(batch.states), batch.tokens.shape[2]), dtype=batch.chain.dtype)
        maxima = np.empty((count, nodes, block), dtype=batch.chain.dtype)
        tables = (*_new_tables(batch), shares, maxima)
        log_z = np.full(len(batch.lengths), -np.inf)
        _run(inside_batch, batch, *limits, *tables, log_z)
        ctx.save_for_backward(tokens, chain, prefix)
        ctx.batch, ctx.limits, ctx.tables = batch, limits, tables
        return torch.from_numpy(log_z).to(tokens.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # notices weights that were changed in place since
        batch = ctx.batch
        given = (batch.chain, batch.prefix, batch.tokens)
        weight = grad.detach().to(torch.float64).numpy()
        chain, prefix, tokens = (np.empty_like(array) for array in given)
        _run(outside_batch, batch, *ctx.limits, *ctx.tables, weight, chain, prefix, tokens)
        return (*map(torch.from_numpy, (tokens, chain, prefix)), None, None, None)


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


def _new_tables(batch: Sentences) -> tuple[np.ndarray, np.ndarray]:
    """Return S `[B, C, N]` and G `[B, C, d, N]`, which the kernels fill; float64 whatever the scores are."""
    count, nodes, block, _ = batch.chain.shape
    width = batch.tokens.shape[2]
    return np.empty((count, nodes, width)), np.empty((count, nodes, block, width))


def _run(kernel: Callable[..., None], batch: Sentences, *arguments: Any) -> None:
    """Call `kernel(first, last, *batch, …)` on ranges of the batch, one a thread, of about equal work."""
    count = len(batch.lengths)
    if count == 1 or torch.get_num_threads() == 1:
        kernel(0, count, *batch, *arguments)
        return
    work = batch.chain_lengths**2 * batch.chain.shape[2] * np.maximum(batch.lengths, 1)
    threads = max(1, min(torch.get_num_threads(), len(work), int(work.sum()) // MIN_WORK_PER_THREAD))
    mine, *others = equal_ranges(work, threads)
    futures = [_pool(threads, os.getpid()).submit(kernel, *some, *batch, *arguments) for some in others]
    kernel(*mine, *batch, *arguments)
    for future in futures:
        future.result()


def equal_ranges(work: Sequence[int] | np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Cut a batch into at most `parts` ranges of neighbours of about equal work."""
    done = np.concatenate([[0], np.cumsum(work)])
    goals = done[-1] * np.arange(1, parts) / parts
    cuts = [0, *np.searchsorted(done, goals).tolist(), len(work)]
    return [(first, last) for first, last in pairwise(cuts) if first < last] or [(0, len(work))]


def _array(tensor: Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.detach().to(dtype).contiguous().numpy()


@lru_cache(maxsize=4)
def _pool(count: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process: a pool does not survive a fork, so its key holds the process id."""
    return ThreadPoolExecutor(count, thread_name_prefix="pcfgnat")
