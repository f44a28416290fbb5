"""The recursion of `aligned.py`, compiled: one sentence after another, paths read off the table."""

import numpy as np
from numpy.typing import NDArray

from pcfgnat.structures.ctc.kernels import Floats, jit

Counts = NDArray[np.int64]


@jit
def cost_of(log_prob: float, highest: float) -> float:
    """Return a cost that can be compared with others, even of what is impossible."""
    return min(-np.float64(log_prob), highest)


@jit
def fill(
    tokens: Floats, blanks: Floats, slots: int, length: int, penalty: float, highest: float, table: Floats
) -> None:
    """`table[i, j]`: the least cost when i tokens and j slots are done."""
    table[0, 0] = 0.0
    for j in range(1, slots + 1):
        table[0, j] = table[0, j - 1] + cost_of(blanks[j - 1], highest)
    for i in range(1, length + 1):
        table[i, 0] = table[i - 1, 0] + penalty * cost_of(tokens[0, i - 1], highest)
        for j in range(1, slots + 1):
            own = cost_of(tokens[j - 1, i - 1], highest)
            emitted, skipped = table[i - 1, j - 1] + own, table[i - 1, j] + penalty * own
            table[i, j] = min(emitted, skipped, table[i, j - 1] + cost_of(blanks[j - 1], highest))


@jit
def best_batch(
    problem: tuple[Floats, Floats, Counts, Counts],
    penalty: float,
    highest: float,
    of_tokens: Floats,
    of_blanks: Floats,
) -> None:
    """Enter the cheapest paths into `of_tokens [B, m, n]` and `of_blanks [B, m]`, which hold zeros.

    Of equal steps the first of these is taken: emit a token, emit a blank, skip a token.
    """
    tokens, blanks, all_slots, lengths = problem
    table = np.empty((tokens.shape[2] + 1, tokens.shape[1] + 1))
    for b in range(len(lengths)):
        i, j = lengths[b], all_slots[b]
        if j == 0:
            continue  # nothing that a token could be charged to
        fill(tokens[b], blanks[b], j, i, penalty, highest, table)
        while i > 0 or j > 0:
            own = cost_of(tokens[b, max(j, 1) - 1, i - 1], highest) if i > 0 else 0.0
            emitted = table[i - 1, j - 1] + own if i > 0 and j > 0 else np.inf
            blank = table[i, j - 1] + cost_of(blanks[b, j - 1], highest) if j > 0 else np.inf
            skipped = table[i - 1, j] + penalty * own if i > 0 else np.inf
            if i > 0 and j > 0 and emitted <= min(blank, skipped):
                of_tokens[b, j - 1, i - 1] = 1.0
                i, j = i - 1, j - 1
            elif j > 0 and blank <= skipped:
                of_blanks[b, j - 1] = 1.0
                j -= 1
            elif i > 0:
                of_tokens[b, max(j, 1) - 1, i - 1] = penalty
                i -= 1
            else:
                j -= 1  # a blank whose cost is not a number
