"""Products of whole matrices: rows of 8 bits times packed weights, and floats times floats.

Matrices are given by address and stride in bytes, so that a product may read and write parts of larger ones.
A weight is given by the address of four integers: addresses of its panels and of its columns' entries, inner
size, number of columns, which is padded.
"""

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached
from pcfgnat.runtimes.native.kernels.blocks import (
    float_block,
    gathering_block,
    int8_block,
    transposing_block,
)
from pcfgnat.runtimes.native.kernels.instructions import host_instructions
from pcfgnat.runtimes.native.kernels.memory import long_at, put_single, single_at
from pcfgnat.runtimes.native.kernels.operations import operation

HOST = host_instructions()
LANES, ROWS, FLOAT_ROWS, PANEL = HOST.lanes, HOST.rows, HOST.float_rows, HOST.panel
COLUMN_BYTES = 12  # of the entries of a column
VECTOR = 16  # numbers of the longest vector: rows of floats are padded to a multiple
PANELS, COLUMN_ENTRIES, INNER, COLUMNS = 0, 8, 16, 24  # places of a weight's integers

# Products and sums may fuse; infinities keep their meaning.
jit = cached(numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy"))
_int8_block = int8_block(HOST)
_four, _two, _one = (float_block(HOST, vectors) for vectors in (4, 2, 1))
_square, _gathered = transposing_block(HOST), gathering_block(HOST)


@jit
def at(array):
    """Return where an array lies."""
    return np.int64(array.ctypes.data)


@jit
def address(array, row, column):
    """Return where a row begins, or a number in it, of a matrix whose rows are contiguous."""
    return at(array) + row * array.strides[0] + column * array.itemsize


@jit
def whole_vectors(count):
    """Return the next number that is a whole number of vectors of any processor."""
    return (count + VECTOR - 1) // VECTOR * VECTOR


@operation()
def linear(ops, count, rows, row_stride, scales, scale_stride, weight, out, out_stride):
    """Multiply `count` rows of bytes, each with a scale, by a packed weight."""
    inner = long_at(weight + INNER)
    panels, entries = long_at(weight + PANELS), long_at(weight + COLUMN_ENTRIES)
    blocks = (count + ROWS - 1) // ROWS
    for panel in range(long_at(weight + COLUMNS) // PANEL):
        first = 0
        for index in range(blocks):  # of about equal size
            size = (count - first + blocks - index - 1) // (blocks - index)
            _int8_block(
                size,
                rows + first * row_stride,
                row_stride,
                panels + panel * PANEL * inner,
                inner // 4,
                out + first * out_stride + panel * PANEL * 4,
                out_stride,
                scales + first * scale_stride,
                scale_stride,
                entries + panel * PANEL * COLUMN_BYTES,
            )
            first += size


@operation()
def multiply(ops, count, inner, columns, rows, row_stride, other, other_stride, out, out_stride):
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


@operation()
def transpose(ops, count, columns, rows, row_stride, out, out_stride):
    """Write rows of floats as columns, of which there are whole vectors, as there are of rows.

    Up to a vector of rows behind the last one is read, and written as if it belonged to them.
    """
    for first in range(0, count, LANES):
        for column in range(0, columns, LANES):
            _square(
                rows + first * row_stride + 4 * column,
                row_stride,
                out + column * out_stride + 4 * first,
                out_stride,
            )


@operation()
def gather_panels(ops, count, inner, addresses, entries, hidden, panels, packed_entries):
    """Pack rows of signed bytes that lie anywhere as the columns of a weight.

    count:     a multiple of a panel's columns
    addresses: where each row lies
    entries:   where the three numbers of each column are
    hidden:    columns from there on are never the best: whatever they are, their offset is the lowest
    """
    for first in range(0, count, LANES):
        panel, half = first // PANEL, first % PANEL
        steps = inner // 4
        for k in range(0, steps // LANES * LANES, LANES):
            _gathered(
                addresses + 8 * first,
                4 * k,
                panels + panel * PANEL * inner + k * 4 * PANEL + 4 * half,
                4 * PANEL,
            )
        for k in range(steps // LANES * LANES, steps):
            for lane in range(LANES):
                value = single_at(long_at(addresses + 8 * (first + lane)) + 4 * k)
                put_single(panels + panel * PANEL * inner + k * 4 * PANEL + 4 * (half + lane), value)
        for lane in range(LANES):
            source = long_at(entries + 8 * (first + lane))
            target = packed_entries + first * COLUMN_BYTES + 4 * lane
            for part in range(3):
                put_single(target + part * 4 * LANES, single_at(source + 4 * part))
            if first + lane >= hidden:
                put_single(target + 4 * LANES, np.float32(0.0))
                put_single(target + 2 * 4 * LANES, np.float32(-1e30))


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
