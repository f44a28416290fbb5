"""Numbers at addresses, in numba's nopython mode."""

import numba
from llvmlite import ir
from numba.core import cgutils, types

from pcfgnat.grammar.compiled import cached
from pcfgnat.runtimes.native.kernels.vectors import BYTE, FLOAT, INT, LONG, code

ALIGNMENT = 64  # of pieces of memory


def _pointer(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.inttoptr(address, kind.as_pointer())


def _long(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.load(_pointer(builder, address, LONG))


def _single(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.load(_pointer(builder, address, FLOAT))


def _int(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.sext(builder.load(_pointer(builder, address, INT)), LONG)


def _byte(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.zext(builder.load(_pointer(builder, address, BYTE)), LONG)


def _put_single(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    builder.store(value, _pointer(builder, address, FLOAT))


def _put_long(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    builder.store(value, _pointer(builder, address, LONG))


def _put_byte(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    builder.store(builder.trunc(value, BYTE), _pointer(builder, address, BYTE))


def _copy(builder: ir.IRBuilder, target: ir.Value, source: ir.Value, size: ir.Value) -> None:
    to, origin = (_pointer(builder, address, BYTE) for address in (target, source))
    cgutils.raw_memcpy(builder, to, origin, size, 1)


def _clear(builder: ir.IRBuilder, address: ir.Value, size: ir.Value) -> None:
    cgutils.memset(builder, _pointer(builder, address, BYTE), size, 0)


def _used(_builder: ir.IRBuilder, *_arrays: ir.Value) -> None:
    """Write nothing."""


long_at = code(_long, types.int64)  # a number of 64 bits
int_at = code(_int, types.int64)  # of 32 bits
byte_at = code(_byte, types.int64)
single_at = code(_single, types.float32)
put_long = code(_put_long)
put_single = code(_put_single)
put_byte = code(_put_byte)
copy = code(_copy)
clear = code(_clear)
used = code(_used)  # arrays whose addresses were used live at least until they are named here


@cached(numba.njit(nogil=True, inline="always"))
def aligned(size):
    """Return the next multiple of the alignment."""
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
