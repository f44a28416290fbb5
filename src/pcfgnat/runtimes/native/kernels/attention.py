"""Attention of one sentence, head by head, in floats."""

import numpy as np

from pcfgnat.runtimes.native.kernels.products import address, jit, multiply, whole_vectors
from pcfgnat.runtimes.native.kernels.rows import softmax

HIDDEN = np.float32(-1e30)


@jit
def attend(query, query_column, query_rows, memory, memory_column, memory_rows, heads, visible, out):
    """Average values by softmax(query · key / √E); keys and then values stand side by side in `memory`.

    query_rows, memory_rows: where the sentence begins and ends
    visible:                 which keys each query sees, `[Q, ≥ K]`; all, if it has no rows
    """
    width = out.shape[1]
    head = width // heads
    count, seen = query_rows[1] - query_rows[0], memory_rows[1] - memory_rows[0]
    padded = whole_vectors(seen)
    keys, scores = np.zeros((head, padded), np.float32), np.empty((count, padded), np.float32)
    factor = np.float32(1.0 / np.sqrt(head))
    for h in range(heads):
        transpose(memory, memory_rows, memory_column + h * head, keys)
        multiply(
            count,
            head,
            padded,
            address(query, query_rows[0], query_column + h * head),
            query.strides[0],
            address(keys, 0, 0),
            keys.strides[0],
            address(scores, 0, 0),
            scores.strides[0],
        )
        for i in range(count):
            if len(visible) > 0:
                hide(scores, i, seen, visible)
            for j in range(seen, padded):
                scores[i, j] = HIDDEN
            softmax(scores, i, np.int64(0), padded, factor)  # whole vectors
        multiply(
            count,
            seen,
            head,
            address(scores, 0, 0),
            scores.strides[0],
            address(memory, memory_rows[0], memory_column + width + h * head),
            memory.strides[0],
            address(out, query_rows[0], h * head),
            out.strides[0],
        )


@jit
def transpose(matrix, rows, column, out):
    """Write some rows of a part of a matrix as columns."""
    for j in range(rows[0], rows[1]):
        for e in range(len(out)):
            out[e, j - rows[0]] = matrix[j, column + e]


@jit
def hide(scores, row, seen, visible):
    """Make the scores of what a query does not see so small that nothing is left of them."""
    for j in range(seen):
        if not visible[row, j]:
            scores[row, j] = HIDDEN
