"""The output layer: of each row the best of some tokens, and the normaliser, without a table of all scores.

Tokens are packed like any other weight, a column each: all of them when a model is loaded, or the shortlist
of a sentence. The first columns are the special tokens, which are scored apart.
"""

import math

import numpy as np
from numba.core import types as numba_types

from pcfgnat.runtimes.native.kernels.memory import (
    aligned,
    byte_at,
    copy,
    int_at,
    long_at,
    put_byte,
    put_long,
    put_single,
    single_at,
)
from pcfgnat.runtimes.native.kernels.operations import operation
from pcfgnat.runtimes.native.kernels.products import (
    COLUMN_BYTES,
    COLUMN_ENTRIES,
    COLUMNS,
    INNER,
    LANES,
    PANEL,
    PANELS,
    ROWS,
    gather_panels,
    jit,
    linear,
)
from pcfgnat.runtimes.native.kernels.row_code import HIDDEN
from pcfgnat.runtimes.native.kernels.rows import CODE

_best, _exp = CODE.best, CODE.exp
SPECIAL = 4  # the first ids, which are scored apart
BLOCK = 1024  # columns whose scores are held at a time, of as many rows as a block of a product has
WEIGHT = 32  # bytes of what describes a weight
LOW = np.float32(HIDDEN)
# places of a shortlist's integers: addresses of a byte for each token that is always in it, of where the
# candidates of each source token begin, and of these; how many are always in it
FREQUENT, OFFSETS, CANDIDATES, ALWAYS = 0, 8, 16, 24


@jit
def describe(weight, panels, entries, inner, columns):
    """Describe a weight."""
    put_long(weight + PANELS, panels)
    put_long(weight + COLUMN_ENTRIES, entries)
    put_long(weight + INNER, inner)
    put_long(weight + COLUMNS, columns)


@jit
def best_room():
    """Return how much memory `best_tokens` works in."""
    return aligned(WEIGHT) + 4 * ROWS * BLOCK


@operation()
def best_tokens(ops, count, bytes_, scales, weight, score, place, special, work):
    """Find the best plain column of each row; write its log-probability, and those of the special tokens.

    place: where its number is written, counted from the first plain one
    """
    inner, columns = long_at(weight + INNER), long_at(weight + COLUMNS)
    scores = work + aligned(WEIGHT)
    for first in range(0, count, ROWS):
        rows = min(ROWS, count - first)
        for start in range(0, columns, BLOCK):
            width = min(BLOCK, columns - start)
            panels, entries = long_at(weight + PANELS), long_at(weight + COLUMN_ENTRIES)
            describe(work, panels + start * inner, entries + start * COLUMN_BYTES, inner, width)
            linear(ops, rows, bytes_ + inner * first, inner, scales + 4 * first, 4, work, scores, 4 * width)
            for i in range(rows):
                row = first + i
                reduce_row(
                    scores + 4 * width * i, start, width, score + 4 * row, place + 8 * row,
                    special + 4 * (SPECIAL + 2) * row,
                )  # fmt: skip
        for row in range(first, first + rows):
            own = special + 4 * (SPECIAL + 2) * row
            normaliser = single_at(own + 4 * SPECIAL) + np.float32(math.log(single_at(own + 4 * SPECIAL + 4)))
            put_single(score + 4 * row, single_at(score + 4 * row) - normaliser)
            put_single(own + 4 * SPECIAL, normaliser)
            for s in range(SPECIAL):
                put_single(own + 4 * s, single_at(own + 4 * s) - normaliser)


@jit
def reduce_row(scores, start, width, score, place, special):
    """Update the best column of a row, and behind the special tokens the greatest score and the mass."""
    top = special + 4 * SPECIAL
    if start == 0:
        copy(special, scores, 4 * SPECIAL)
        put_single(score, LOW)
        put_long(place, 0)
        highest = LOW
        for s in range(SPECIAL):
            highest = max(highest, single_at(special + 4 * s))
        put_single(top, highest)
        put_single(top + 4, np.float32(0.0))
    found = _best(scores, SPECIAL if start == 0 else 0, width // LANES)
    value, before = single_at(scores + 4 * found), single_at(top)
    if value > single_at(score):
        put_single(score, value)
        put_long(place, start + found - SPECIAL)
    highest = max(before, value)
    mass = single_at(top + 4) * np.float32(math.exp(before - highest))
    put_single(top + 4, mass + _exp(scores, -highest, width // LANES))
    put_single(top, highest)


@operation(numba_types.int64)
def choose_types(ops, ids, count, shortlist, vocabulary, marks, types):
    """Write the plain tokens that a source makes likely, in rising order; returns how many there are.

    marks: room for a byte for each token, and for seven more
    """
    copy(marks, long_at(shortlist + FREQUENT), vocabulary)
    for i in range(vocabulary, vocabulary + 7):
        put_byte(marks + i, 0)
    offsets, candidates = long_at(shortlist + OFFSETS), long_at(shortlist + CANDIDATES)
    for i in range(count):
        source = long_at(ids + 8 * i)
        put_byte(marks + source, 1)
        for place in range(long_at(offsets + 8 * source), long_at(offsets + 8 * source + 8)):
            put_byte(marks + int_at(candidates + 4 * place), 1)
    for token in range(SPECIAL):
        put_byte(marks + token, 0)
    found = 0
    for eight in range(0, vocabulary, 8):
        if long_at(marks + eight):
            for token in range(eight, eight + 8):
                if byte_at(marks + token):
                    put_long(types + 8 * found, token)
                    found += 1
    return found


@jit
def panels_room(width, count):
    """Return how much memory `pack_types` needs for so many types."""
    padded = (count + SPECIAL + PANEL - 1) // PANEL * PANEL
    return aligned(WEIGHT) + aligned(padded * width) + aligned(padded * COLUMN_BYTES) + 16 * padded


@operation()
def pack_types(ops, types, count, width, tokens, entries, weight):
    """Pack the special tokens and these types as a weight, which is described at the memory's beginning.

    tokens, entries: the rows of all tokens, and the three numbers that belong to each as a column
    """
    total = count + SPECIAL
    padded = (total + PANEL - 1) // PANEL * PANEL
    panels = weight + aligned(WEIGHT)
    packed_entries = panels + aligned(padded * width)
    rows = packed_entries + aligned(padded * COLUMN_BYTES)
    numbers = rows + 8 * padded
    for column in range(padded):
        token = column if column < SPECIAL else 0
        if SPECIAL <= column < total:
            token = long_at(types + 8 * (column - SPECIAL))
        put_long(rows + 8 * column, tokens + width * token)
        put_long(numbers + 8 * column, entries + COLUMN_BYTES * token)
    gather_panels(ops, padded, width, rows, numbers, total, panels, packed_entries)
    describe(weight, panels, packed_entries, width, padded)


@operation()
def score_tokens(
    ops, wanted, count, width, tokens, entries, rows, bytes_, scales, normalisers, normaliser_stride, out,
    work,
):  # fmt: skip
    """Write the log-probabilities of some tokens for each row, in whole panels of columns.

    normalisers: of each row
    work:        room as for packing these tokens
    """
    padded = (count + PANEL - 1) // PANEL * PANEL
    panels = work + aligned(WEIGHT)
    packed_entries = panels + aligned(padded * width)
    places = packed_entries + aligned(padded * COLUMN_BYTES)
    numbers = places + 8 * padded
    for column in range(padded):
        token = long_at(wanted + 8 * column) if column < count else 0
        put_long(places + 8 * column, tokens + width * token)
        put_long(numbers + 8 * column, entries + COLUMN_BYTES * token)
    gather_panels(ops, padded, width, places, numbers, padded, panels, packed_entries)
    describe(work, panels, packed_entries, width, padded)
    linear(ops, rows, bytes_, width, scales, 4, work, out, 4 * padded)
    for row in range(rows):
        normaliser = single_at(normalisers + normaliser_stride * row)
        for column in range(count):
            place = out + 4 * (padded * row + column)
            put_single(place, single_at(place) - normaliser)
