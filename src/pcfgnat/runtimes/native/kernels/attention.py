"""Attention of one sentence, head by head, in floats."""

import numpy as np

from pcfgnat.runtimes.native.kernels.memory import byte_at, put_single
from pcfgnat.runtimes.native.kernels.operations import operation
from pcfgnat.runtimes.native.kernels.products import LANES, multiply, whole_vectors
from pcfgnat.runtimes.native.kernels.row_code import HIDDEN
from pcfgnat.runtimes.native.kernels.rows import CODE

_softmax = CODE.softmax
LOW = np.float32(HIDDEN)


@operation()
def attend(
    ops, heads, head, count, query, query_stride, seen, growing, keys, key_stride, values, value_stride,
    visible, visible_stride, scores, out, out_stride,
):  # fmt: skip
    """Average values by softmax(query · key / √E).

    seen:    how many keys the last query sees; if `growing`, each query before it sees one less
    keys:    as columns, with room for whole vectors
    visible: for each query, which keys it sees as bytes; all, if 0
    scores:  room for a row of whole vectors for each query
    """
    padded, factor = whole_vectors(seen), np.float32(1.0 / np.sqrt(head))
    for h in range(heads):
        multiply(
            ops, count, head, padded, query + 4 * h * head, query_stride, keys + h * head * key_stride,
            key_stride, scores, 4 * padded,
        )  # fmt: skip
        for i in range(count):
            row = scores + 4 * padded * i
            if visible:
                for j in range(seen):
                    if not byte_at(visible + visible_stride * i + j):
                        put_single(row + 4 * j, LOW)
            known = seen - (count - 1 - i) if growing else seen
            _softmax(row, known, padded // LANES, factor)
        multiply(
            ops, count, seen, head, scores, 4 * padded, values + 4 * h * head, value_stride,
            out + 4 * h * head, out_stride,
        )  # fmt: skip
