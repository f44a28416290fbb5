"""Blocks of matrices in registers, as LLVM code: products of bytes, products of floats, transposition."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from pcfgnat.runtimes.native.kernels.instructions import VECTORS, Instructions
from pcfgnat.runtimes.native.kernels.vectors import FLOAT, INT, LONG, Vectors, code

ENTRIES = 3  # of a column: where its sums begin, its scale, its offset


def _by_rows(builder: ir.IRBuilder, count: ir.Value, most: int, write: Callable[[int], None]) -> None:
    """Choose among blocks of 1 … most rows."""
    done = builder.append_basic_block("done")
    choice = builder.switch(count, done)
    for rows in range(1, most + 1):
        choice.add_case(ir.Constant(LONG, rows), block := builder.append_basic_block(f"rows{rows}"))
        builder.position_at_end(block)
        write(rows)
        builder.branch(done)
    builder.position_at_end(done)


def int8_block(instructions: Instructions) -> Any:
    """Return what multiplies a few rows of bytes by a panel of signed bytes.

    Arguments: number of rows; address and stride of the rows; address of the panel `[K/4, columns, 4]`; K/4;
    address and stride of the results, which are floats; address and stride of a scale for each row; address
    of the columns' entries `[2, 3, lanes]`.
    """

    def write(builder: ir.IRBuilder, count: ir.Value, *rest: ir.Value) -> None:
        _by_rows(
            builder,
            count,
            instructions.rows,
            lambda rows: _write_int8(Vectors(builder, instructions.lanes), instructions, rows, *rest),
        )

    return code(write)


def _write_int8(
    v: Vectors,
    instructions: Instructions,
    rows: int,
    a: ir.Value,
    a_stride: ir.Value,
    b: ir.Value,
    steps: ir.Value,
    out: ir.Value,
    out_stride: ir.Value,
    scale: ir.Value,
    scale_stride: ir.Value,
    columns: ir.Value,
) -> None:
    builder, size, entries = v.builder, v.bytes, ENTRIES * v.bytes
    totals = [[cgutils.alloca_once(builder, v.ints) for _ in range(VECTORS)] for _ in range(rows)]
    for j in range(VECTORS):
        begin = v.load(columns, v.ints, j * entries)
        for i in range(rows):
            builder.store(begin, totals[i][j])
    with cgutils.for_range(builder, steps, intp=LONG) as loop:
        panel = v.along(b, VECTORS * size, loop.index)
        here = v.along(a, 4, loop.index)
        vectors = [v.load(panel, v.ints, j * size) for j in range(VECTORS)]
        for i in range(rows):
            four = v.spread(v.load(v.at(here, a_stride, i), INT), v.ints)
            for j in range(VECTORS):
                total = instructions.dot(builder, builder.load(totals[i][j]), four, vectors[j])
                builder.store(total, totals[i][j])
    for i in range(rows):
        row = v.spread(v.load(v.at(scale, scale_stride, i), FLOAT), v.floats)
        for j in range(VECTORS):
            total = builder.sitofp(builder.load(totals[i][j]), v.floats)
            own = v.load(columns, v.floats, j * entries + size)
            offset = v.load(columns, v.floats, j * entries + 2 * size)
            v.store(v.fused(total, builder.fmul(own, row), offset), v.at(out, out_stride, i), j * size)


def float_block(instructions: Instructions, vectors: int) -> Any:
    """Return what multiplies a few rows of floats by so many vectors of columns.

    Arguments: number of rows; address and stride of the rows; address and stride of the other matrix, row by
    row; how many rows that has; address and stride of the results.
    """

    def write(builder: ir.IRBuilder, count: ir.Value, *rest: ir.Value) -> None:
        _by_rows(
            builder,
            count,
            instructions.float_rows,
            lambda rows: _write_float(Vectors(builder, instructions.lanes), rows, vectors, *rest),
        )

    return code(write)


def _write_float(
    v: Vectors,
    rows: int,
    vectors: int,
    a: ir.Value,
    a_stride: ir.Value,
    b: ir.Value,
    b_stride: ir.Value,
    steps: ir.Value,
    out: ir.Value,
    out_stride: ir.Value,
) -> None:
    builder = v.builder
    totals = [[cgutils.alloca_once(builder, v.floats) for _ in range(vectors)] for _ in range(rows)]
    for row in totals:
        for total in row:
            builder.store(v.number(0.0), total)
    with cgutils.for_range(builder, steps, intp=LONG) as loop:
        other = builder.add(b, builder.mul(b_stride, loop.index))
        here = v.along(a, 4, loop.index)
        columns = [v.load(other, v.floats, j * v.bytes) for j in range(vectors)]
        for i in range(rows):
            number = v.spread(v.load(v.at(here, a_stride, i), FLOAT), v.floats)
            for j in range(vectors):
                builder.store(v.fused(number, columns[j], builder.load(totals[i][j])), totals[i][j])
    for i in range(rows):
        for j in range(vectors):
            v.store(builder.load(totals[i][j]), v.at(out, out_stride, i), j * v.bytes)


def transposing_block(instructions: Instructions) -> Any:
    """Return what exchanges rows and columns of a square of numbers of 32 bits, as wide as a vector.

    Arguments: address and stride of the rows; address and stride of what is written.
    """

    def write(
        builder: ir.IRBuilder, rows: ir.Value, stride: ir.Value, out: ir.Value, out_stride: ir.Value
    ) -> None:
        v = Vectors(builder, instructions.lanes)
        square = [v.load(v.at(rows, stride, i), v.ints) for i in range(v.lanes)]
        for i, column in enumerate(transposed(v, square)):
            v.store(column, v.at(out, out_stride, i))

    return code(write)


def gathering_block(instructions: Instructions) -> Any:
    """Return the same for rows that lie anywhere.

    Arguments: address of the rows' addresses, of which one after the other is read; how many bytes behind
    each the square begins; address and stride of what is written.
    """

    def write(
        builder: ir.IRBuilder, addresses: ir.Value, offset: ir.Value, out: ir.Value, out_stride: ir.Value
    ) -> None:
        v = Vectors(builder, instructions.lanes)
        places = [v.load(addresses, LONG, 8 * i) for i in range(v.lanes)]
        square = [v.load(builder.add(place, offset), v.ints) for place in places]
        for i, column in enumerate(transposed(v, square)):
            v.store(column, v.at(out, out_stride, i))

    return code(write)


def transposed(v: Vectors, square: list[ir.Value]) -> list[ir.Value]:
    """Exchange rows and columns: halves of ever smaller squares change places."""
    lanes, half = v.lanes, v.lanes // 2
    while half:
        upper = [lane + (lanes - half if lane & half else 0) for lane in range(lanes)]
        lower = [lane + (lanes if lane & half else half) for lane in range(lanes)]
        masks = [ir.Constant(v.ints, places) for places in (upper, lower)]
        for i in range(lanes):
            if not i & half:
                pair = square[i], square[i + half]
                square[i], square[i + half] = (v.builder.shuffle_vector(*pair, mask) for mask in masks)
        half //= 2
    return square
