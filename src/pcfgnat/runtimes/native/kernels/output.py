"""The output layer: of each state the best of some tokens, and the normaliser, without a table of all scores.

Here states are the packed side: one vector has a number of many nodes, so that maxima and sums over tokens
need nothing across a vector. Tokens are rows of bytes around 64, states are signed bytes.
"""

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached
from pcfgnat.grammar.kernels.exponential import exp_single
from pcfgnat.runtimes.native.kernels.products import COLUMN_BYTES, LANES, PANEL, address, jit, multiply_int8
from pcfgnat.runtimes.native.kernels.rows import LARGEST, LOWEST, TINY, largest_size

TOKEN_MIDDLE = 64  # what stands for 0 in rows of tokens
SPECIAL = 4  # the first ids, which are scored apart
BLOCK = 192  # tokens whose scores are held at a time


@jit
def pack_states(states, panels, entries):
    """Write states as signed bytes, panel by panel, and what belongs to each column."""
    inner = states.shape[1]
    for row in range(len(states)):
        most = max(largest_size(states, row), TINY)
        factor, panel, lane = LARGEST / most, row // PANEL, row % PANEL
        total = np.int32(0)
        start = panel * PANEL * inner + lane * 4
        for i in range(inner):
            value = np.int32(states[row, i] * factor + np.float32(128.5)) - 128
            panels[start + i // 4 * (PANEL * 4) + i % 4] = value
            total += value
        vector = (panel * (PANEL // LANES) + lane // LANES) * 3 * LANES + lane % LANES
        entries[vector] = np.int32(-TOKEN_MIDDLE * total).view(np.float32)
        entries[vector + LANES] = most / LARGEST


@jit
def best_tokens(states, tokens, scales, types, all_types):
    """Return the best plain token of each state among `types`, or among all, and its log-probability first.

    Third come the log-probabilities of the special tokens, which take part in the normaliser.
    """
    count, inner = states.shape
    best, place = np.empty(count, np.float32), np.empty(count, np.int64)
    special = np.empty((count, SPECIAL), np.float32)
    padded = (count + PANEL - 1) // PANEL * PANEL
    # one piece of memory: an array whose address alone is used later would be given back
    memory = np.zeros(padded * (inner + COLUMN_BYTES), np.uint8)
    pack_states(states, memory[: padded * inner].view(np.int8), memory[padded * inner :].view(np.float32))
    linear = np.array([0, padded * inner, inner, padded])
    rows, row_scales = np.empty((BLOCK, inner), np.uint8), np.empty(BLOCK, np.float32)
    scores = np.empty((BLOCK, padded), np.float32)
    highest, where = np.full(padded, np.float32(-np.inf)), np.zeros(padded, np.int32)
    mass = np.zeros(padded, np.float32)
    total = SPECIAL + (len(tokens) - SPECIAL if all_types else len(types))
    for first in range(0, total, BLOCK):
        size = min(BLOCK, total - first)
        for row in range(size):
            index = first + row
            token = index if all_types or index < SPECIAL else types[index - SPECIAL]
            for i in range(inner):
                rows[row, i] = tokens[token, i]
            row_scales[row] = scales[token]
        multiply_int8(
            size, address(rows, 0, 0), rows.strides[0], address(row_scales, 0, 0), row_scales.strides[0],
            address(memory, 0, 0), linear, address(scores, 0, 0), scores.strides[0],
        )  # fmt: skip
        plain = 0
        if first == 0:
            plain = SPECIAL
            for n in range(count):
                for s in range(SPECIAL):
                    special[n, s] = scores[s, n]
        reduce_block(scores, plain, size, first, highest, where, mass)
    for n in range(count):
        best[n] = normalised(highest[n], mass[n], special, n)
        place[n] = where[n] if all_types else types[where[n] - SPECIAL]
    return best, place, special


# In the order that is written: a vector would add otherwise than what is left over behind the last one.
@cached(numba.njit(nogil=True))
def normalised(highest, mass, special, n):
    """Return a node's best score, less its normaliser, which is taken from those of special tokens too."""
    top = highest
    for s in range(SPECIAL):
        top = max(top, special[n, s])
    total = mass * np.exp(highest - top)
    for s in range(SPECIAL):
        total += np.exp(special[n, s] - top)
    normaliser = np.float32(top + np.log(total))
    for s in range(SPECIAL):
        special[n, s] -= normaliser
    return highest - normaliser


@jit
def reduce_block(scores, first_row, last_row, start, highest, where, mass):
    """Update the best and the sum of exp(score - best) of every column by a block of rows."""
    width = scores.shape[1]
    before = highest.copy()
    for row in range(first_row, last_row):
        for n in range(width):
            if scores[row, n] > highest[n]:
                highest[n] = scores[row, n]
                where[n] = np.int32(start + row)
    for n in range(width):
        mass[n] *= exp_single(max(before[n] - highest[n], LOWEST))
    for row in range(first_row, last_row):
        for n in range(width):
            mass[n] += exp_single(max(scores[row, n] - highest[n], LOWEST))
