"""Products of whole matrices: 8-bit rows times packed weights, and floats times floats.

Matrices are given by address and stride in bytes, so that a product may read and write parts of larger ones.
"""

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached
from pcfgnat.runtimes.native.kernels.instructions import float_block, host_instructions, int8_block

HOST = host_instructions()
LANES, ROWS, FLOAT_ROWS, PANEL = HOST.lanes, HOST.rows, HOST.float_rows, HOST.panel
COLUMN_BYTES = 12  # of the entries of a column
MIDDLE = 128  # what stands for 0 in rows of 8 bits

# Sums may change their order, products and sums may fuse; infinities keep their meaning.
jit = cached(numba.njit(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy"))
_int8_block = int8_block(HOST)
_four, _two, _one = (float_block(HOST, vectors) for vectors in (4, 2, 1))


@jit
def address(array, row, column):
    """Return where a row begins, or a number in it, of a matrix whose rows are contiguous."""
    return array.ctypes.data + row * array.strides[0] + column * array.itemsize


@jit
def multiply_int8(count, rows, row_stride, scales, scale_stride, packed, linear, out, out_stride):
    """Multiply `count` rows of bytes by a packed weight, of which `linear` says where and how large it is.

    linear: offset of the panels, offset of the columns' entries, inner size, padded number of columns
    """
    inner, columns = linear[2], linear[3]
    blocks = (count + ROWS - 1) // ROWS
    for panel in range(columns // PANEL):
        weights = packed + linear[0] + panel * PANEL * inner
        entries = packed + linear[1] + panel * PANEL * COLUMN_BYTES
        first = 0
        for index in range(blocks):  # of about equal size
            size = (count - first + blocks - index - 1) // (blocks - index)
            _int8_block(
                size,
                rows + first * row_stride,
                row_stride,
                weights,
                inner // 4,
                out + first * out_stride + panel * PANEL * 4,
                out_stride,
                scales + first * scale_stride,
                scale_stride,
                entries,
            )
            first += size


@jit
def multiply(count, inner, columns, rows, row_stride, other, other_stride, out, out_stride):
    """Multiply floats by floats; the columns must be whole vectors."""
    blocks = (count + FLOAT_ROWS - 1) // FLOAT_ROWS
    column = 0
    while column < columns:
        left = (columns - column) // LANES
        width = 4 if left >= 4 else (2 if left >= 2 else 1)
        first = 0
        for index in range(blocks):
            size = (count - first + blocks - index - 1) // (blocks - index)
            a, b = rows + first * row_stride, other + 4 * column
            c = out + first * out_stride + 4 * column
            if width == 4:
                _four(size, a, row_stride, b, other_stride, inner, c, out_stride)
            elif width == 2:
                _two(size, a, row_stride, b, other_stride, inner, c, out_stride)
            else:
                _one(size, a, row_stride, b, other_stride, inner, c, out_stride)
            first += size
        column += width * LANES


@jit
def whole_vectors(count):
    """Return the next number of columns that is a whole number of vectors of any processor."""
    return (count + 15) // 16 * 16


@jit
def linear_rows(x, scales, packed, linear, out):
    """Multiply all rows of bytes by a weight."""
    multiply_int8(
        len(x),
        address(x, 0, 0),
        x.strides[0],
        address(scales, 0, 0),
        scales.strides[0],
        packed,
        linear,
        address(out, 0, 0),
        out.strides[0],
    )


def pack(values: np.ndarray, lanes: int = LANES) -> np.ndarray:
    """Put a weight `[columns, inner]` of signed bytes into panels, as blocks read it."""
    columns, inner = values.shape
    if inner % 4 or columns % (2 * lanes):
        raise ValueError(f"a packed weight must have multiples of {2 * lanes} and 4, got {values.shape}")
    panels = values.reshape(columns // (2 * lanes), 2, lanes, inner // 4, 4)
    return np.ascontiguousarray(panels.transpose(0, 3, 1, 2, 4)).reshape(-1)


def column_entries(
    begin: np.ndarray, scale: np.ndarray, offset: np.ndarray, lanes: int = LANES
) -> np.ndarray:
    """Put what belongs to columns together, vector by vector; `begin` are integers in the place of floats."""
    parts = (begin.astype(np.int32).view(np.float32), scale.astype(np.float32), offset.astype(np.float32))
    return np.stack([part.reshape(-1, lanes) for part in parts], axis=1).reshape(-1)
