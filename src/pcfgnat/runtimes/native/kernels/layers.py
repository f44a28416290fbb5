"""Layers of a Transformer over the rows of several sentences, one under the other without padding.

Weights are numbered. `linears` has four numbers for each (see `multiply_int8`), `norms` scale and offset; a
layer's own follow each other from a given index on. `bounds[b]` is where the rows of sentence b begin.
"""

import numpy as np

from pcfgnat.runtimes.native.kernels.attention import attend
from pcfgnat.runtimes.native.kernels.products import jit, linear_rows
from pcfgnat.runtimes.native.kernels.rows import gelu, normalise, quantise, relu

# linears of a layer, in order: an encoder layer has the first four
PROJECT, SELF_OUTPUT, WIDEN, NARROW, QUERY, CROSS_OUTPUT = range(6)
ENCODER_LINEARS, DECODER_LINEARS = 4, 6
ENCODER_NORMS, DECODER_NORMS = 2, 3


@jit
def enter(x, pre_norm, norms, norm, read, bytes_, scales):
    """Turn what a sub-layer reads into bytes: the rows' norm, or the rows themselves."""
    for row in range(len(x)):
        if pre_norm:
            normalise(x, row, norms, norm, read)
            quantise(read, row, bytes_, scales)
        else:
            quantise(x, row, bytes_, scales)


@jit
def leave(x, update, pre_norm, norms, norm):
    """Add what a sub-layer wrote."""
    for row in range(len(x)):
        for i in range(x.shape[1]):
            x[row, i] += update[row, i]
        if not pre_norm:
            normalise(x, row, norms, norm, x)


@jit
def output(mixed, bytes_, scales, packed, linear, update):
    """Map what heads have mixed."""
    for row in range(len(mixed)):
        quantise(mixed, row, bytes_, scales)
    linear_rows(bytes_, scales, packed, linear, update)


@jit
def feed_forward(x, pre_norm, is_gelu, norms, norm, packed, linears, first, read, bytes_, scales):
    """Widen, activate, narrow, add."""
    enter(x, pre_norm, norms, norm, read, bytes_, scales)
    wide = np.empty((len(x), linears[first + WIDEN, 3]), np.float32)
    wide_bytes = np.empty(wide.shape, np.uint8)
    linear_rows(bytes_, scales, packed, linears[first + WIDEN], wide)
    for row in range(len(x)):
        if is_gelu:
            gelu(wide, row)
        else:
            relu(wide, row)
        quantise(wide, row, wide_bytes, scales)
    linear_rows(wide_bytes, scales, packed, linears[first + NARROW], read)
    leave(x, read, pre_norm, norms, norm)


@jit
def encode(x, bounds, heads, pre_norm, is_gelu, packed, linears, norms, layers):
    """Run encoder layers over embedded sources, in place; a last norm follows pre-norm layers."""
    rows, width = x.shape
    first = norm = np.int64(0)  # of the layer; not a literal, for which all would be compiled again
    read, bytes_ = np.empty((rows, width), np.float32), np.empty((rows, width), np.uint8)
    mixed, scales = np.empty((rows, width), np.float32), np.empty(rows, np.float32)
    projected, everything = np.empty((rows, 3 * width), np.float32), np.empty((0, 0), np.bool_)
    for _ in range(layers):
        enter(x, pre_norm, norms, norm, read, bytes_, scales)
        linear_rows(bytes_, scales, packed, linears[first + PROJECT], projected)
        for b in range(len(bounds) - 1):
            own = (bounds[b], bounds[b + 1])
            attend(projected, np.int64(0), own, projected, width, own, heads, everything, mixed)
        output(mixed, bytes_, scales, packed, linears[first + SELF_OUTPUT], read)
        leave(x, read, pre_norm, norms, norm)
        feed_forward(x, pre_norm, is_gelu, norms, norm + 1, packed, linears, first, read, bytes_, scales)
        first, norm = first + ENCODER_LINEARS, norm + ENCODER_NORMS
    if pre_norm:
        for row in range(rows):
            normalise(x, row, norms, norm, x)


@jit
def decode(x, bounds, memory, memory_bounds, heads, pre_norm, is_gelu, packed, linears, norms, layers):
    """Run decoder layers over canvases, in place; `memory` has keys and values of all layers side by side."""
    rows, width = x.shape
    first = norm = np.int64(0)  # of the layer; not a literal, for which all would be compiled again
    read, bytes_ = np.empty((rows, width), np.float32), np.empty((rows, width), np.uint8)
    mixed, scales = np.empty((rows, width), np.float32), np.empty(rows, np.float32)
    projected, everything = np.empty((rows, 3 * width), np.float32), np.empty((0, 0), np.bool_)
    for layer in range(layers):
        enter(x, pre_norm, norms, norm, read, bytes_, scales)
        linear_rows(bytes_, scales, packed, linears[first + PROJECT], projected)
        for b in range(len(bounds) - 1):
            own = (bounds[b], bounds[b + 1])
            attend(projected, np.int64(0), own, projected, width, own, heads, everything, mixed)
        output(mixed, bytes_, scales, packed, linears[first + SELF_OUTPUT], read)
        leave(x, read, pre_norm, norms, norm)
        look_at_source(
            x, bounds, memory, memory_bounds, layer, heads, pre_norm, packed, linears, first, norms, norm + 1,
            read, bytes_, scales, mixed,
        )  # fmt: skip
        feed_forward(x, pre_norm, is_gelu, norms, norm + 2, packed, linears, first, read, bytes_, scales)
        first, norm = first + DECODER_LINEARS, norm + DECODER_NORMS
    if pre_norm:
        for row in range(rows):
            normalise(x, row, norms, norm, x)


@jit
def look_at_source(
    x, bounds, memory, memory_bounds, layer, heads, pre_norm, packed, linears, first, norms, norm, read,
    bytes_, scales, mixed,
):  # fmt: skip
    """Attend to the encoder's states, and add what comes of it."""
    width, everything = x.shape[1], np.empty((0, 0), np.bool_)  # nothing is hidden
    enter(x, pre_norm, norms, norm, read, bytes_, scales)
    linear_rows(bytes_, scales, packed, linears[first + QUERY], read)
    for b in range(len(bounds) - 1):
        sentence = (memory_bounds[b], memory_bounds[b + 1])
        attend(
            read, 0, (bounds[b], bounds[b + 1]), memory, 2 * width * layer, sentence, heads, everything, mixed
        )
    output(mixed, bytes_, scales, packed, linears[first + CROSS_OUTPUT], read)
    leave(x, read, pre_norm, norms, norm)


@jit
def mapped(x, packed, linear):
    """Return rows that are multiplied by a weight as they are, such as keys and values of encoder states."""
    bytes_, scales = np.empty(x.shape, np.uint8), np.empty(len(x), np.float32)
    out = np.empty((len(x), linear[3]), np.float32)
    output(x, bytes_, scales, packed, linear, out)
    return out


@jit
def read(
    x, bounds, past, kept, visible, memory, memory_bounds, heads, pre_norm, is_gelu, packed, linears, norms,
    layers,
):  # fmt: skip
    """Run decoder layers over new tokens, in place; keys and values are put behind `kept[b]` earlier ones.

    past:    keys and values of all layers side by side, by sentence and token
    visible: which tokens each new one of a sentence sees, `[B, Q, S]`
    """
    rows, width = x.shape
    first = norm = np.int64(0)  # of the layer; not a literal, for which all would be compiled again
    read_, bytes_ = np.empty((rows, width), np.float32), np.empty((rows, width), np.uint8)
    mixed, scales = np.empty((rows, width), np.float32), np.empty(rows, np.float32)
    projected = np.empty((rows, 3 * width), np.float32)
    for layer in range(layers):
        enter(x, pre_norm, norms, norm, read_, bytes_, scales)
        linear_rows(bytes_, scales, packed, linears[first + PROJECT], projected)
        column, none = 2 * width * layer, np.int64(0)
        for b in range(len(bounds) - 1):
            count = bounds[b + 1] - bounds[b]
            for i in range(count):
                for e in range(2 * width):
                    past[b, kept[b] + i, column + e] = projected[bounds[b] + i, width + e]
            attend(
                projected, none, (bounds[b], bounds[b + 1]), past[b], column, (none, kept[b] + count), heads,
                visible[b], mixed,
            )  # fmt: skip
        output(mixed, bytes_, scales, packed, linears[first + SELF_OUTPUT], read_)
        leave(x, read_, pre_norm, norms, norm)
        look_at_source(
            x, bounds, memory, memory_bounds, layer, heads, pre_norm, packed, linears, first, norms, norm + 1,
            read_, bytes_, scales, mixed,
        )  # fmt: skip
        feed_forward(x, pre_norm, is_gelu, norms, norm + 2, packed, linears, first, read_, bytes_, scales)
        first, norm = first + DECODER_LINEARS, norm + DECODER_NORMS
    if pre_norm:
        for row in range(rows):
            normalise(x, row, norms, norm, x)
