"""What is done to one row of floats, as LLVM code. Rows are whole vectors; `steps` is how many they have."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from pcfgnat.runtimes.native.kernels.vectors import BYTE, FLOAT, INT, LONG, Vectors, code, declared

EPSILON = 1e-5  # of norms
TINY = 1e-30  # what a row of zeros is taken to have
LARGEST = 127.0  # of bytes around their middle
MIDDLE = 128  # what stands for 0 in rows of bytes
HIDDEN = -1e30  # what is left of the score of something that must not be chosen


@dataclass(frozen=True)
class RowCode:
    """Functions of numba's nopython mode, for vectors of one length; see `_writers`."""

    norm: Any
    size: Any
    to_bytes: Any
    gelu: Any
    relu: Any
    softmax: Any
    pair: Any
    hide: Any
    exp: Any
    add: Any
    log: Any
    embed: Any
    sum: Any
    best: Any

    @classmethod
    def of(cls, lanes: int) -> "RowCode":
        """Return all of them."""
        return cls(*(code(_with(write, lanes), result) for write, result in _writers()))


def _writers() -> Iterator[tuple[Callable[..., ir.Value | None], types.Type]]:
    single, nothing = types.float32, types.void
    yield from ((_norm, single), (_size, single), (_to_bytes, nothing))
    yield from ((_gelu, single), (_relu, single), (_softmax, nothing))
    yield from ((_pair, single), (_hide, single), (_exp, single), (_add, nothing), (_log, nothing))
    yield from ((_embed, nothing), (_sum, nothing))
    yield _best, types.int64


def _with(write: Callable[..., ir.Value | None], lanes: int) -> Callable[..., ir.Value | None]:
    return lambda builder, *arguments: write(Vectors(builder, lanes), *arguments)


class _Running:
    """A vector that changes from step to step."""

    def __init__(self, v: Vectors, first: float) -> None:
        self._builder = v.builder
        self._place = cgutils.alloca_once(v.builder, v.floats)
        v.builder.store(v.number(first), self._place)

    @property
    def value(self) -> ir.Value:
        return self._builder.load(self._place)

    def become(self, value: ir.Value) -> None:
        self._builder.store(value, self._place)


@contextmanager
def _steps(v: Vectors, steps: ir.Value, *rows: ir.Value) -> Iterator[list[ir.Value]]:
    """Go through rows of floats vector by vector; yields where each is."""
    with cgutils.for_range(v.builder, steps, intp=LONG) as loop:
        yield [v.along(row, v.bytes, loop.index) for row in rows]


def _norm(
    v: Vectors,
    x: ir.Value,
    update: ir.Value,
    scale: ir.Value,
    offset: ir.Value,
    out: ir.Value,
    steps: ir.Value,
) -> ir.Value:
    """Add `update` to x, and write the norm of that, which may take its place.

    Returns the greatest absolute value of the norm.
    """
    b, total = v.builder, _Running(v, 0.0)
    with _steps(v, steps, x, update) as (here, more):
        value = b.fadd(v.load(here, v.floats), v.load(more, v.floats))
        v.store(value, here)
        total.become(b.fadd(total.value, value))
    width = b.sitofp(b.mul(steps, ir.Constant(LONG, v.lanes)), FLOAT)
    mean = v.spread(b.fdiv(v.total(total.value), width), v.floats)
    squares = _Running(v, 0.0)
    with _steps(v, steps, x) as (here,):
        distance = b.fsub(v.load(here, v.floats), mean)
        squares.become(v.fused(distance, distance, squares.value))
    variance = b.fadd(b.fdiv(v.total(squares.value), width), ir.Constant(FLOAT, EPSILON))
    root = b.call(declared(b, "llvm.sqrt.f32", FLOAT, FLOAT), [variance])
    factor = v.spread(b.fdiv(ir.Constant(FLOAT, 1.0), root), v.floats)
    most = _Running(v, 0.0)
    with _steps(v, steps, x, scale, offset, out) as (here, own, more, there):
        value = b.fmul(b.fsub(v.load(here, v.floats), mean), factor)
        value = v.fused(value, v.load(own, v.floats), v.load(more, v.floats))
        v.store(value, there)
        most.become(v.largest(v.size(value), most.value))
    return v.across(most.value, v.largest)


def _size(v: Vectors, x: ir.Value, steps: ir.Value) -> ir.Value:
    """Return the greatest absolute value."""
    most = _Running(v, 0.0)
    with _steps(v, steps, x) as (here,):
        most.become(v.largest(v.size(v.load(here, v.floats)), most.value))
    return v.across(most.value, v.largest)


def _to_bytes(
    v: Vectors, x: ir.Value, most: ir.Value, out: ir.Value, scale: ir.Value, steps: ir.Value
) -> None:
    """Write bytes around 128, and the scale, which follows from the greatest absolute value."""
    b = v.builder
    bounded = b.select(b.fcmp_ordered(">", most, ir.Constant(FLOAT, TINY)), most, ir.Constant(FLOAT, TINY))
    largest = ir.Constant(FLOAT, LARGEST)
    v.store(b.fdiv(bounded, largest), scale)
    factor = v.spread(b.fdiv(largest, bounded), v.floats)
    with cgutils.for_range(b, steps, intp=LONG) as loop:
        value = v.load(v.along(x, v.bytes, loop.index), v.floats)
        shifted = v.fused(value, factor, v.number(MIDDLE + 0.5))  # what is cut off afterwards is rounded
        v.store_bytes(b.fptosi(shifted, v.ints), v.along(out, v.lanes, loop.index))


def _gelu(v: Vectors, x: ir.Value, steps: ir.Value) -> ir.Value:
    """Replace numbers by x · Φ(x); returns the greatest absolute value."""
    most = _Running(v, 0.0)
    with _steps(v, steps, x) as (here,):
        value = v.gelu(v.load(here, v.floats))
        v.store(value, here)
        most.become(v.largest(v.size(value), most.value))
    return v.across(most.value, v.largest)


def _relu(v: Vectors, x: ir.Value, steps: ir.Value) -> ir.Value:
    """Replace numbers by what is positive of them; returns the greatest."""
    most = _Running(v, 0.0)
    with _steps(v, steps, x) as (here,):
        value = v.largest(v.load(here, v.floats), v.number(0.0))
        v.store(value, here)
        most.become(v.largest(value, most.value))
    return v.across(most.value, v.largest)


def _softmax(v: Vectors, x: ir.Value, count: ir.Value, steps: ir.Value, factor: ir.Value) -> None:
    """Replace the first `count` numbers by the softmax of `factor` times them, and what follows by 0."""
    b, most, total = v.builder, _Running(v, HIDDEN), _Running(v, 0.0)
    own = v.spread(factor, v.floats)
    with cgutils.for_range(b, steps, intp=LONG) as loop:
        here, inside = v.along(x, v.bytes, loop.index), _before(v, loop.index, count)
        value = b.select(inside, b.fmul(v.load(here, v.floats), own), v.number(HIDDEN))
        v.store(value, here)
        most.become(v.largest(value, most.value))
    highest = v.spread(v.across(most.value, v.largest), v.floats)
    with _steps(v, steps, x) as (here,):
        value = v.exp(b.fsub(v.load(here, v.floats), highest))
        v.store(value, here)
        total.become(b.fadd(total.value, value))
    share = v.spread(b.fdiv(ir.Constant(FLOAT, 1.0), v.total(total.value)), v.floats)
    with _steps(v, steps, x) as (here,):
        v.store(b.fmul(v.load(here, v.floats), share), here)


def _before(v: Vectors, step: ir.Value, stop: ir.Value) -> ir.Value:
    """Return which places of a vector come before a place in the row."""
    places = v.places(v.builder.mul(step, ir.Constant(LONG, v.lanes)))
    return v.builder.icmp_signed("<", places, v.spread(v.builder.trunc(stop, INT), v.ints))


def _pair(v: Vectors, first: ir.Value, second: ir.Value, out: ir.Value, steps: ir.Value) -> ir.Value:
    """Write the sum of two rows; returns their scalar product."""
    total = _Running(v, 0.0)
    with _steps(v, steps, first, second, out) as (one, other, there):
        pair = v.load(one, v.floats), v.load(other, v.floats)
        v.store(v.builder.fadd(*pair), there)
        total.become(v.fused(*pair, total.value))
    return v.total(total.value)


def _hide(v: Vectors, x: ir.Value, before: ir.Value, stop: ir.Value, steps: ir.Value) -> ir.Value:
    """Hide all places but those behind `before` and before `stop`; returns the greatest number."""
    b, most = v.builder, _Running(v, HIDDEN)
    first = v.spread(b.trunc(before, INT), v.ints)
    with cgutils.for_range(b, steps, intp=LONG) as loop:
        here = v.along(x, v.bytes, loop.index)
        places = v.places(b.mul(loop.index, ir.Constant(LONG, v.lanes)))
        seen = b.and_(b.icmp_signed(">", places, first), _before(v, loop.index, stop))
        value = b.select(seen, v.load(here, v.floats), v.number(HIDDEN))
        v.store(value, here)
        most.become(v.largest(value, most.value))
    return v.across(most.value, v.largest)


def _exp(v: Vectors, x: ir.Value, shift: ir.Value, steps: ir.Value) -> ir.Value:
    """Replace numbers by exp(x + shift), which must be at most 88; returns their sum."""
    b, total, more = v.builder, _Running(v, 0.0), v.spread(shift, v.floats)
    with _steps(v, steps, x) as (here,):
        value = v.exp(b.fadd(v.load(here, v.floats), more))
        v.store(value, here)
        total.become(b.fadd(total.value, value))
    return v.total(total.value)


def _add(v: Vectors, total: ir.Value, x: ir.Value, factor: ir.Value, steps: ir.Value) -> None:
    """Add a multiple of a row to another."""
    own = v.spread(factor, v.floats)
    with _steps(v, steps, total, x) as (there, here):
        v.store(v.fused(v.load(here, v.floats), own, v.load(there, v.floats)), there)


def _log(v: Vectors, x: ir.Value, least: ir.Value, steps: ir.Value) -> None:
    """Replace numbers by their logarithms, those below `least` by its own."""
    lowest = v.spread(least, v.floats)
    with _steps(v, steps, x) as (here,):
        v.store(v.log(v.largest(v.load(here, v.floats), lowest)), here)


def _embed(
    v: Vectors, token: ir.Value, scale: ir.Value, position: ir.Value, out: ir.Value, steps: ir.Value
) -> None:
    """Write signed bytes times a scale, and what belongs to a position added."""
    b, own = v.builder, v.spread(scale, v.floats)
    with cgutils.for_range(b, steps, intp=LONG) as loop:
        narrow = v.load(v.along(token, v.lanes, loop.index), ir.VectorType(BYTE, v.lanes))
        value = b.sitofp(b.sext(narrow, v.ints), v.floats)
        more = v.load(v.along(position, v.bytes, loop.index), v.floats)
        v.store(v.fused(value, own, more), v.along(out, v.bytes, loop.index))


def _sum(v: Vectors, first: ir.Value, second: ir.Value, out: ir.Value, steps: ir.Value) -> None:
    """Write the sum of two rows."""
    with _steps(v, steps, first, second, out) as (one, other, there):
        v.store(v.builder.fadd(v.load(one, v.floats), v.load(other, v.floats)), there)


def _best(v: Vectors, x: ir.Value, first: ir.Value, steps: ir.Value) -> ir.Value:
    """Return the first place of the greatest number at `first` or behind."""
    b, most = v.builder, _Running(v, HIDDEN)
    where = cgutils.alloca_once(b, v.ints)
    b.store(v.integer(0), where)
    start = v.spread(b.trunc(first, INT), v.ints)
    with cgutils.for_range(b, steps, intp=LONG) as loop:
        value = v.load(v.along(x, v.bytes, loop.index), v.floats)
        places = v.places(b.mul(loop.index, ir.Constant(LONG, v.lanes)))
        better = b.and_(b.fcmp_ordered(">", value, most.value), b.icmp_signed(">=", places, start))
        b.store(b.select(better, places, b.load(where)), where)
        most.become(b.select(better, value, most.value))
    highest = v.spread(v.across(most.value, v.largest), v.floats)
    last = v.integer(0x7FFFFFFF)
    equal = b.select(b.fcmp_ordered("==", most.value, highest), b.load(where), last)
    return b.sext(v.across(equal, lambda a, c: b.select(b.icmp_signed("<", a, c), a, c)), LONG)
