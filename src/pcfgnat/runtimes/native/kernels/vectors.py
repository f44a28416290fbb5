"""LLVM code over vectors of 32-bit numbers, for what has to be vectorised as a whole, whatever its size.

Addresses are integers. Sums are taken in one order, that of the code: results depend on nothing else.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

BYTE, SHORT, INT, LONG, FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
VECTOR_BYTES = 4  # of a number in a vector

# of exponents: below, nothing is left of a number
LOWEST = -87.0
EXP_COEFFICIENTS = [1.0 / math.factorial(k) for k in range(2, 8)]
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # their product with an exponent is exact, and the rest
ROUND = 1.5 * 2.0**23  # a number to which a small one is added is rounded to a whole one
BIAS, MANTISSA_BITS = 127, 23
SQRT_HALF_BITS = 0x3F3504F3
ATANH_COEFFICIENTS = [2.0 / k for k in (1, 3, 5, 7, 9)]
# 1 - erf(x) = 1 / (1 + a1 x + … + a6 x⁶)¹⁶ to 3e-7: Abramowitz and Stegun, 7.1.28
ERF_COEFFICIENTS = [0.0705230784, 0.0422820123, 0.0092705272, 0.0001520143, 0.0002765672, 0.0000430638]


class Vectors:
    """Writes instructions over vectors of one length."""

    def __init__(self, builder: ir.IRBuilder, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.ints, self.floats = ir.VectorType(INT, lanes), ir.VectorType(FLOAT, lanes)
        self.bytes = VECTOR_BYTES * lanes  # of a vector

    # memory

    def load(self, address: ir.Value, kind: ir.Type, offset: int = 0) -> ir.Value:
        """Read a number or a vector."""
        value = self.builder.load(self._pointer(address, kind, offset))
        narrow = kind is INT or getattr(kind, "element", None) is BYTE  # bytes, four or a vector of them
        value.align = 1 if narrow else 4
        return value

    def store(self, value: ir.Value, address: ir.Value, offset: int = 0) -> None:
        """Write a number or a vector."""
        self.builder.store(value, self._pointer(address, value.type, offset)).align = 4

    def store_bytes(self, value: ir.Value, address: ir.Value) -> None:
        """Write whole numbers of 0 … 255 as bytes."""
        narrow = self.builder.trunc(value, ir.VectorType(BYTE, self.lanes))
        self.builder.store(narrow, self._pointer(address, narrow.type, 0)).align = 1

    def at(self, address: ir.Value, stride: ir.Value, index: int) -> ir.Value:
        """Return the address of a row."""
        return self.builder.add(address, self.builder.mul(stride, ir.Constant(LONG, index)))

    def along(self, address: ir.Value, stride: int, index: ir.Value) -> ir.Value:
        """Return the address of an element."""
        return self.builder.add(address, self.builder.mul(index, ir.Constant(LONG, stride)))

    def _pointer(self, address: ir.Value, kind: ir.Type, offset: int) -> ir.Value:
        if offset:
            address = self.builder.add(address, ir.Constant(LONG, offset))
        return self.builder.inttoptr(address, kind.as_pointer())

    # numbers

    def number(self, value: float) -> ir.Constant:
        """Return a vector that has a constant everywhere."""
        return ir.Constant(self.floats, [value] * self.lanes)

    def integer(self, value: int) -> ir.Constant:
        """Return the same of integers."""
        return ir.Constant(self.ints, [value] * self.lanes)

    def spread(self, value: ir.Value, vector: ir.VectorType) -> ir.Value:
        """Return a vector that has a number everywhere."""
        undefined = ir.Constant(vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(INT, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(self.ints, [0] * vector.count))

    def places(self, first: ir.Value) -> ir.Value:
        """Return `first`, `first + 1`, …"""
        steps = ir.Constant(self.ints, list(range(self.lanes)))
        return self.builder.add(self.spread(self.builder.trunc(first, INT), self.ints), steps)

    def fused(self, first: ir.Value, second: ir.Value, third: ir.Value) -> ir.Value:
        """Return `first · second + third`."""
        kind = first.type
        name = f"llvm.fmuladd.v{self.lanes}f32" if kind == self.floats else "llvm.fmuladd.f32"
        function = declared(self.builder, name, kind, kind, kind, kind)
        return self.builder.call(function, [first, second, third])

    def largest(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Return the greater of two."""
        return self.builder.select(self.builder.fcmp_ordered(">", first, second), first, second)

    def size(self, value: ir.Value) -> ir.Value:
        """Return the absolute value."""
        bits = self.builder.and_(self.builder.bitcast(value, self.ints), self.integer(0x7FFFFFFF))
        return self.builder.bitcast(bits, self.floats)

    def across(self, vector: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """Return one number of a whole vector, halves being joined until one is left."""
        undefined, half = ir.Constant(vector.type, ir.Undefined), self.lanes // 2
        while half:
            moved = [(lane + half) % self.lanes for lane in range(self.lanes)]
            other = self.builder.shuffle_vector(vector, undefined, ir.Constant(self.ints, moved))
            vector, half = join(vector, other), half // 2
        return self.builder.extract_element(vector, ir.Constant(INT, 0))

    def total(self, vector: ir.Value) -> ir.Value:
        """Return the sum of a vector."""
        return self.across(vector, self.builder.fadd)

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """Return `c0 + c1 x + c2 x² + …`."""
        value: ir.Value = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fused(value, x, self.number(coefficient))
        return value

    def exp(self, x: ir.Value) -> ir.Value:
        """Return exp to its last bit or two, and 0 below `LOWEST`; x is at most 88."""
        b, lowest = self.builder, self.number(LOWEST)
        bounded = self.largest(x, lowest)
        shifted = self.fused(bounded, self.number(1 / math.log(2)), self.number(ROUND))
        k = b.fsub(shifted, self.number(ROUND))
        r = self.fused(k, self.number(-LN2_LOW), self.fused(k, self.number(-LN2_HIGH), bounded))
        rest = self.polynomial(r, EXP_COEFFICIENTS)
        value = self.fused(b.fmul(r, r), rest, b.fadd(r, self.number(1.0)))
        biased = b.add(b.bitcast(shifted, self.ints), self.integer(BIAS))
        power = b.bitcast(b.shl(biased, self.integer(MANTISSA_BITS)), self.floats)
        return b.select(b.fcmp_ordered(">", x, lowest), b.fmul(value, power), self.number(0.0))

    def log(self, x: ir.Value) -> ir.Value:
        """Return the logarithm of positive numbers that are not denormal."""
        b = self.builder
        bits = b.bitcast(x, self.ints)
        shift = self.integer(MANTISSA_BITS)
        k = b.ashr(b.sub(bits, self.integer(SQRT_HALF_BITS)), shift)
        m = b.bitcast(b.sub(bits, b.shl(k, shift)), self.floats)  # from √½ to √2
        one = self.number(1.0)
        s = b.fdiv(b.fsub(m, one), b.fadd(m, one))
        series = self.polynomial(b.fmul(s, s), ATANH_COEFFICIENTS)
        return self.fused(b.sitofp(k, self.floats), self.number(math.log(2)), b.fmul(s, series))

    def gelu(self, x: ir.Value) -> ir.Value:
        """Return x · Φ(x)."""
        b = self.builder
        power = self.polynomial(b.fmul(self.size(x), self.number(math.sqrt(0.5))), [1.0, *ERF_COEFFICIENTS])
        for _ in range(4):
            power = b.fmul(power, power)
        half_tail = b.fdiv(self.number(0.5), power, flags=("arcp",))
        below = b.fcmp_ordered("<", x, self.number(0.0))
        share = b.select(below, half_tail, b.fsub(self.number(1.0), half_tail))
        return b.fmul(x, share)


def declared(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Type) -> ir.Function:
    """Return a function of LLVM or of the processor."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def code(write: Callable[..., ir.Value | None], result: types.Type = types.void) -> Any:
    """Return a function of numba's nopython mode, whose instructions `write` writes.

    It takes integers of 64 bits and floats of 32, as `write` does behind the builder.
    """

    @intrinsic
    def written(typing: object, *arguments: types.Type) -> tuple[Signature, object]:
        def generate(
            context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[ir.Value]
        ) -> ir.Value:
            found = write(builder, *cgutils.unpack_tuple(builder, values[0]))
            return context.get_dummy_value() if found is None else found

        return result(types.StarArgTuple(arguments)), generate

    return written
