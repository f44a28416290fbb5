"""The kernels behind torch functions: gradients, threads over the batch, and when they apply."""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.structures.rhpcfg.prefix_plan import PrefixPlan, prefix_plan
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.rhpcfg.support_tree import SupportTree

# Per dtype: scaled rules and spans below exp(cutoff) count as 0, and products above `trust` are then exact.
LIMITS = {torch.float32: (-87.0, math.exp(-60.0)), torch.float64: (-700.0, math.exp(-600.0))}
# Less work than this (right-hand sums of a sentence) is not worth a second thread.
MIN_WORK_PER_THREAD = 100_000


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """log P of every target, with the posteriors as its gradient."""
    return _LogPartition.apply(  # type: ignore[no-any-return,no-untyped-call]
        weights.tokens, weights.chain, weights.prefix, weights.chain_lengths, weights.lengths, weights.tree
    )


def best(weights: Weights) -> tuple[Int[Tensor, "B m"], Float[Tensor, "B"]]:
    """Return the best derivation of every target: the position that each symbol emits, and the log-probability."""
    from pcfgnat.structures.rhpcfg.kernels.viterbi import best_batch

    problem = _Problem.of(weights)
    position = np.full(problem.tokens.shape[:2], -1, dtype=np.int64)
    score = np.full(len(position), -np.inf)
    problem.run(best_batch, problem.lengths, problem.plan.states, problem.plan.splits, score, position)
    return torch.from_numpy(position), torch.from_numpy(score).to(weights.tokens.dtype)


@dataclass(frozen=True)
class LengthTable:
    """Best derivation of every length, when each symbol emits its best token wherever it stands."""

    scores: Float[Tensor, "B S"]
    problem: "_Problem"
    tables: tuple[np.ndarray, np.ndarray]

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the symbols of the best derivation of the given length of each sentence, in order."""
        from pcfgnat.structures.rhpcfg.kernels.viterbi import trace_batch

        problem = self.problem
        position = np.full(problem.tokens.shape[:2], -1, dtype=np.int64)
        wanted = np.array(lengths, dtype=np.int64)
        problem.run(trace_batch, wanted, problem.plan.states, problem.plan.splits, *self.tables, position)
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
    from pcfgnat.structures.rhpcfg.kernels.viterbi import tables_batch

    everywhere = tokens.unsqueeze(2).expand(-1, -1, max_length)
    lengths = torch.full_like(chain_lengths, max_length)
    problem = _Problem.of(Weights(tree, everywhere, chain, prefix, chain_lengths, lengths))
    batch, nodes, block = problem.chain.shape[:3]
    spans = np.empty((batch, nodes, max_length))
    rights = np.empty((batch, nodes, block, max_length))
    problem.run(tables_batch, problem.plan.states, problem.plan.splits, spans, rights)
    scores = np.full((batch, max_length + 1), -np.inf)
    scores[:, 1:] = spans[:, 0, ::-1]
    return LengthTable(torch.from_numpy(scores), problem, (spans, rights))


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, chain: Tensor, prefix: Tensor, chain_lengths: Tensor, lengths: Tensor, tree: SupportTree
    ) -> Tensor:
        from pcfgnat.structures.rhpcfg.kernels.inside_outside import inside_batch

        problem = _Problem.of(Weights(tree, tokens, chain, prefix, chain_lengths, lengths))
        batch, nodes, block = problem.chain.shape[:3]
        spans = np.empty((batch, nodes, problem.tokens.shape[2]))
        rights = np.empty((batch, nodes, block, problem.tokens.shape[2]))
        log_z = np.full(batch, -np.inf)
        plan = problem.plan
        problem.run(inside_batch, problem.lengths, plan.states, plan.splits, problem.limits, spans, rights, log_z)
        ctx.save_for_backward(tokens, chain, prefix)
        ctx.problem, ctx.tables = problem, (spans, rights)
        return torch.from_numpy(log_z).to(tokens.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from pcfgnat.structures.rhpcfg.kernels.inside_outside import outside_batch

        problem, plan = ctx.problem, ctx.problem.plan
        _ = ctx.saved_tensors  # notices weights that were changed in place since
        weight = grad.detach().to(dtype=torch.float64).numpy()
        gradients = (
            np.zeros_like(problem.chain),
            np.zeros_like(problem.prefix),
            np.zeros_like(problem.tokens),
        )
        problem.run(
            outside_batch, problem.lengths, plan.states, plan.splits, problem.limits, *ctx.tables, weight, gradients
        )
        grad_chain, grad_prefix, grad_tokens = (torch.from_numpy(gradient) for gradient in gradients)
        return grad_tokens, grad_chain, grad_prefix, None, None, None


@dataclass(frozen=True)
class _Problem:
    """A batch as the kernels want it: contiguous arrays of one dtype."""

    chain: np.ndarray
    prefix: np.ndarray
    tokens: np.ndarray
    chain_lengths: np.ndarray
    lengths: np.ndarray
    plan: PrefixPlan
    limits: tuple[float, float]

    @classmethod
    def of(cls, weights: Weights) -> "_Problem":
        dtype = weights.chain.dtype
        return cls(
            chain=_array(weights.chain, dtype),
            prefix=_array(weights.prefix, dtype),
            tokens=_array(weights.tokens, dtype),
            chain_lengths=_array(weights.chain_lengths, torch.int64),
            lengths=_array(weights.lengths, torch.int64),
            plan=prefix_plan(weights.tree.prefix_depth),
            limits=LIMITS[dtype],
        )

    def run(self, kernel: Callable[..., None], *arguments: Any) -> None:
        """Call `kernel(first, last, …)` on ranges of the batch, one a thread, of about equal work."""
        inputs = (self.chain, self.prefix, self.tokens, self.chain_lengths)
        work = self.chain_lengths * self.chain_lengths * self.chain.shape[2] * np.maximum(self.lengths, 1)
        threads = max(1, min(torch.get_num_threads(), len(work), int(work.sum()) // MIN_WORK_PER_THREAD))
        ranges = equal_ranges(work, threads)
        if len(ranges) == 1:
            kernel(*ranges[0], *inputs, *arguments)
            return
        first, *others = ranges
        futures = [_threads(threads - 1, os.getpid()).submit(kernel, *some, *inputs, *arguments) for some in others]
        kernel(*first, *inputs, *arguments)
        for future in futures:
            future.result()


def equal_ranges(work: Sequence[int] | np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Cut a batch into at most `parts` ranges of neighbours of about equal work."""
    done = np.concatenate([[0], np.cumsum(work)])
    goals = done[-1] * np.arange(1, parts) / parts
    cuts = [0, *np.searchsorted(done, goals).tolist(), len(work)]
    ranges = [(first, last) for first, last in zip(cuts, cuts[1:], strict=False) if first < last]
    return ranges or [(0, len(work))]


def _array(tensor: Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.detach().to(dtype).contiguous().numpy()


@lru_cache(maxsize=4)
def _threads(count: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process: a pool does not survive a fork, so its key holds the process id."""
    return ThreadPoolExecutor(count, thread_name_prefix="pcfgnat")
