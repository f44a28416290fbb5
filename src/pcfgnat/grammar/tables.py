"""Viterbi by the compiled kernels, over numpy arrays: no torch, and no other kernel is loaded."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from pcfgnat.grammar.kernels.viterbi import tables_batch, trace_batch
from pcfgnat.grammar.prefix_plan import prefix_plan

# Less work than this (products of rules and positions) is not worth a second thread.
MIN_WORK_PER_THREAD = 100_000


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
class BestByLength:
    """Best derivation of every length, when each symbol emits its best token wherever it stands."""

    scores: Float[np.ndarray, "B S"]  # by length; -inf where no derivation has it
    batch: Sentences
    tables: tuple[np.ndarray, np.ndarray]
    threads: int

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the symbols of the best derivation of the given length of each sentence, in order."""
        position = np.empty(self.batch.tokens.shape[:2], dtype=np.int64)
        wanted = np.array(lengths, dtype=np.int64)
        run(trace_batch, self.threads, self.batch, *self.tables, wanted, position)
        return [tuple(np.flatnonzero(row >= 0).tolist()) for row in position]


def best_by_length(
    tokens: Float[np.ndarray, "B m"],
    chain: Float[np.ndarray, "B C d C"],
    prefix: Float[np.ndarray, "B C R"],
    chain_lengths: Int[np.ndarray, "B"],
    max_length: int,
    threads: int = 1,
) -> BestByLength:
    """Viterbi over (symbol, length) (paper, section 3.4), all lengths in one pass."""
    plan = prefix_plan(chain.shape[2].bit_length() - 1)
    batch = Sentences(
        chain=np.ascontiguousarray(chain),
        prefix=np.ascontiguousarray(prefix, dtype=chain.dtype),
        tokens=np.repeat(tokens.astype(chain.dtype, copy=False)[:, :, None], max_length, axis=2),
        chain_lengths=np.ascontiguousarray(chain_lengths, dtype=np.int64),
        lengths=np.full(len(chain_lengths), max_length, dtype=np.int64),
        states=plan.states,
        splits=plan.splits,
    )
    tables = new_tables(batch)
    run(tables_batch, threads, batch, *tables)
    scores = np.full((len(tables[0]), max_length + 1), -np.inf)
    scores[:, 1:] = tables[0][:, 0, ::-1]
    return BestByLength(scores, batch, tables, threads)


def new_tables(batch: Sentences) -> tuple[np.ndarray, np.ndarray]:
    """Return S `[B, C, N]` and G `[B, C, d, N]`, which the kernels fill; float64 whatever the scores are."""
    count, nodes, block, _ = batch.chain.shape
    width = batch.tokens.shape[2]
    return np.empty((count, nodes, width)), np.empty((count, nodes, block, width))


def run(kernel: Callable[..., None], threads: int, batch: Sentences, *arguments: Any) -> None:
    """Call `kernel(first, last, *batch, …)` on ranges of the batch, one a thread, of about equal work."""
    count = len(batch.lengths)
    if count == 1 or threads == 1:
        kernel(0, count, *batch, *arguments)
        return
    work = batch.chain_lengths**2 * batch.chain.shape[2] * np.maximum(batch.lengths, 1)
    threads = max(1, min(threads, len(work), int(work.sum()) // MIN_WORK_PER_THREAD))
    mine, *others = equal_ranges(work, threads)
    futures = [thread_pool(threads, os.getpid()).submit(kernel, *some, *batch, *arguments) for some in others]
    kernel(*mine, *batch, *arguments)
    for future in futures:
        future.result()


def equal_ranges(work: Sequence[int] | np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Cut a batch into at most `parts` ranges of neighbours of about equal work."""
    done = np.concatenate([[0], np.cumsum(work)])
    goals = done[-1] * np.arange(1, parts) / parts
    cuts = [0, *np.searchsorted(done, goals).tolist(), len(work)]
    return [(first, last) for first, last in pairwise(cuts) if first < last] or [(0, len(work))]


@lru_cache(maxsize=4)
def thread_pool(count: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process: a pool does not survive a fork, so its key holds the process id."""
    return ThreadPoolExecutor(count, thread_name_prefix="pcfgnat")
