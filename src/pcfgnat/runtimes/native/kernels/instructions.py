"""Which instructions this processor has for products of 8 bits.

Numbers of 8 bits are multiplied four at a time and added to one of 32: in one instruction (VNNI), in two
(AVX2), or in whatever LLVM makes of plain vectors. All of them give the same sums, since weights have 7 bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from llvmlite import binding, ir

from pcfgnat.runtimes.native.kernels.vectors import BYTE, INT, SHORT, declared

VECTORS = 2  # of columns in a panel

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


def _vnni(bits: int) -> Dot:
    vector = ir.VectorType(INT, bits // 32)

    def dot(builder: ir.IRBuilder, total: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
        name = f"llvm.x86.avx512.vpdpbusd.{bits}"
        return builder.call(declared(builder, name, vector, vector, vector, vector), [total, first, second])

    return dot


def _avx2(builder: ir.IRBuilder, total: ir.Value, first: ir.Value, second: ir.Value) -> ir.Value:
    """Pairs of products in 16 bits, which 7-bit weights never overflow, then pairs of these in 32."""
    bytes_, shorts, ints = (ir.VectorType(kind, n) for kind, n in ((BYTE, 32), (SHORT, 16), (INT, 8)))
    multiply = declared(builder, "llvm.x86.avx2.pmadd.ub.sw", shorts, bytes_, bytes_)
    add = declared(builder, "llvm.x86.avx2.pmadd.wd", ints, shorts, shorts)
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
