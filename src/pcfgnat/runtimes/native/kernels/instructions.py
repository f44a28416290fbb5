"""Products of small blocks, in the instructions that this processor has.

A block is a few rows of one matrix times two vectors of columns of another, summed in registers. Numbers of 8
bits are multiplied four at a time and added to one of 32: in one instruction (VNNI), in two (AVX2), or in
whatever LLVM makes of plain vectors. All of them give the same sums, since weights have 7 bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

BYTE, SHORT, INT, LONG, FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTORS = 2  # of columns in a panel
ENTRIES = 3  # of a column: where its sums begin, its scale, its offset

Dot = Callable[[ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Instructions:
    """How blocks are multiplied.

    lanes:      numbers of 32 bits in a vector
    rows:       rows of a block of 8 bits, as many as there are registers for
    float_rows: those of a block of floats, which has four vectors of columns
    """

    name: str
    lanes: int
    rows: int
    float_rows: int
    dot: Dot

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return VECTORS * self.lanes


def _declared(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Type) -> ir.Function:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def _vnni(bits: int) -> Dot:
    vector = ir.VectorType(INT, bits // 32)

    def dot(builder: ir.IRBuilder, total: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
        name = f"llvm.x86.avx512.vpdpbusd.{bits}"
        return builder.call(_declared(builder, name, vector, vector, vector, vector), [total, first, second])

    return dot


def _avx2(builder: ir.IRBuilder, total: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
    """Pairs of products in 16 bits, which 7-bit weights never overflow, then pairs of these in 32."""
    bytes_, shorts, ints = (ir.VectorType(kind, n) for kind, n in ((BYTE, 32), (SHORT, 16), (INT, 8)))
    multiply = _declared(builder, "llvm.x86.avx2.pmadd.ub.sw", shorts, bytes_, bytes_)
    add = _declared(builder, "llvm.x86.avx2.pmadd.wd", ints, shorts, shorts)
    pairs = builder.call(multiply, [builder.bitcast(first, bytes_), builder.bitcast(second, bytes_)])
    return builder.add(total, builder.call(add, [pairs, ir.Constant(shorts, [1] * 16)]))


def _plain(builder: ir.IRBuilder, total: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
    """The same in vectors of no particular processor."""
    bytes_, shorts, ints = (ir.VectorType(kind, n) for kind, n in ((BYTE, 32), (SHORT, 32), (INT, 16)))
    products = builder.mul(
        builder.zext(builder.bitcast(first, bytes_), shorts),
        builder.sext(builder.bitcast(second, bytes_), shorts),
    )
    pairs = builder.sext(_pairwise(builder, products, SHORT, 32), ints)
    return builder.add(total, _pairwise(builder, pairs, INT, 16))


def _pairwise(builder: ir.IRBuilder, vector: ir.Value, kind: ir.Type, count: int) -> ir.Value:
    parts = []
    for start in (0, 1):
        places = ir.Constant(ir.VectorType(INT, count // 2), list(range(start, count, 2)))
        undefined = ir.Constant(ir.VectorType(kind, count), ir.Undefined)
        parts.append(builder.shuffle_vector(vector, undefined, places))
    return builder.add(*parts)


INSTRUCTIONS = {
    "vnni512": Instructions("vnni512", 16, 12, 6, _vnni(512)),
    "vnni256": Instructions("vnni256", 8, 5, 3, _vnni(256)),
    "avx2": Instructions("avx2", 8, 4, 3, _avx2),
    "plain": Instructions("plain", 8, 4, 3, _plain),
}


@cache
def host_instructions() -> Instructions:
    """Return the fastest that this processor has."""
    features = binding.get_host_cpu_features()
    if features.get("avx512vnni") and features.get("avx512vl"):
        return INSTRUCTIONS["vnni512"]
    if features.get("avxvnni"):
        return INSTRUCTIONS["vnni256"]
    return INSTRUCTIONS["avx2" if features.get("avx2") else "plain"]


class _Block:
    """Writes LLVM's instructions for blocks; addresses are integers."""

    def __init__(self, builder: ir.IRBuilder, lanes: int) -> None:
        self.builder = builder
        self.ints, self.floats = ir.VectorType(INT, lanes), ir.VectorType(FLOAT, lanes)
        self.bytes = 4 * lanes  # of a vector

    def load(self, address: ir.Value, kind: ir.Type, offset: int = 0) -> ir.Value:
        value = self.builder.load(self._pointer(address, kind, offset))
        value.align = 4 if kind is not INT else 1
        return value

    def store(self, value: ir.Value, address: ir.Value, offset: int = 0) -> None:
        self.builder.store(value, self._pointer(address, value.type, offset)).align = 4

    def spread(self, value: ir.Value, vector: ir.VectorType) -> ir.Value:
        """Return a vector that has a number everywhere."""
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(INT, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(self.ints, [0] * vector.count))

    def at(self, address: ir.Value, stride: ir.Value, index: int) -> ir.Value:
        return self.builder.add(address, self.builder.mul(stride, ir.Constant(LONG, index)))

    def along(self, address: ir.Value, stride: int, index: ir.Value) -> ir.Value:
        return self.builder.add(address, self.builder.mul(index, ir.Constant(LONG, stride)))

    def _pointer(self, address: ir.Value, kind: ir.Type, offset: int) -> ir.Value:
        if offset:
            address = self.builder.add(address, ir.Constant(LONG, offset))
        return self.builder.inttoptr(address, kind.as_pointer())


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
    """Return what multiplies a few rows of bytes by a panel of signed bytes, in numba's nopython mode.

    Arguments: number of rows; address and stride of the rows; address of the panel `[K/4, columns, 4]`; K/4;
    address and stride of the results, which are floats; address and stride of a scale for each row; address
    of the columns' entries `[2, 3, lanes]`.
    """

    @intrinsic
    def block(typing: Any, count: Any, a: Any, a_stride: Any, b: Any, steps: Any, out: Any, out_stride: Any,
              scale: Any, scale_stride: Any, columns: Any) -> Any:  # fmt: skip
        def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            _by_rows(
                builder,
                arguments[0],
                instructions.rows,
                lambda rows: _write_int8(builder, instructions, rows, *arguments[1:]),
            )
            return context.get_dummy_value()

        return types.void(*[types.int64] * 10), write

    return block


def _write_int8(
    builder: ir.IRBuilder,
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
    block = _Block(builder, instructions.lanes)
    size, entries = block.bytes, ENTRIES * block.bytes
    totals = [[cgutils.alloca_once(builder, block.ints) for _ in range(VECTORS)] for _ in range(rows)]
    for j in range(VECTORS):
        begin = block.load(columns, block.ints, j * entries)
        for i in range(rows):
            builder.store(begin, totals[i][j])
    with cgutils.for_range(builder, steps, intp=LONG) as loop:
        panel = block.along(b, VECTORS * size, loop.index)
        here = block.along(a, 4, loop.index)
        vectors = [block.load(panel, block.ints, j * size) for j in range(VECTORS)]
        for i in range(rows):
            four = block.spread(block.load(block.at(here, a_stride, i), INT), block.ints)
            for j in range(VECTORS):
                total = instructions.dot(builder, builder.load(totals[i][j]), four, vectors[j])
                builder.store(total, totals[i][j])
    for i in range(rows):
        row = block.spread(block.load(block.at(scale, scale_stride, i), FLOAT), block.floats)
        for j in range(VECTORS):
            total = builder.sitofp(builder.load(totals[i][j]), block.floats)
            own = block.load(columns, block.floats, j * entries + size)
            offset = block.load(columns, block.floats, j * entries + 2 * size)
            result = builder.fadd(builder.fmul(total, builder.fmul(own, row)), offset)
            block.store(result, block.at(out, out_stride, i), j * size)


def float_block(instructions: Instructions, vectors: int) -> Any:
    """Return what multiplies a few rows of floats by so many vectors of columns, in numba's nopython mode.

    Arguments: number of rows; address and stride of the rows; address and stride of the other matrix, row by
    row; how many rows that has; address and stride of the results.
    """

    @intrinsic
    def block(typing: Any, count: Any, a: Any, a_stride: Any, b: Any, b_stride: Any, steps: Any, out: Any,
              out_stride: Any) -> Any:  # fmt: skip
        def write(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            _by_rows(
                builder,
                arguments[0],
                instructions.float_rows,
                lambda rows: _write_float(builder, instructions.lanes, rows, vectors, *arguments[1:]),
            )
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), write

    return block


def _write_float(
    builder: ir.IRBuilder,
    lanes: int,
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
    block = _Block(builder, lanes)
    fused = _declared(builder, f"llvm.fmuladd.v{lanes}f32", block.floats, *[block.floats] * 3)
    totals = [[cgutils.alloca_once(builder, block.floats) for _ in range(vectors)] for _ in range(rows)]
    for row in totals:
        for total in row:
            builder.store(ir.Constant(block.floats, [0.0] * lanes), total)
    with cgutils.for_range(builder, steps, intp=LONG) as loop:
        other = builder.add(b, builder.mul(b_stride, loop.index))
        here = block.along(a, 4, loop.index)
        columns = [block.load(other, block.floats, j * block.bytes) for j in range(vectors)]
        for i in range(rows):
            number = block.spread(block.load(block.at(here, a_stride, i), FLOAT), block.floats)
            for j in range(vectors):
                builder.store(
                    builder.call(fused, [number, columns[j], builder.load(totals[i][j])]), totals[i][j]
                )
    for i in range(rows):
        for j in range(vectors):
            block.store(builder.load(totals[i][j]), block.at(out, out_stride, i), j * block.bytes)
