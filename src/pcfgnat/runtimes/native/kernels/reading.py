"""Reading tokens one after the other: a decoder over what is new, with keys and values of what was read."""

import numpy as np

from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.layers import WIDTH, layout, run_layers
from pcfgnat.runtimes.native.kernels.memory import long_at, used
from pcfgnat.runtimes.native.kernels.network import EOS, longest_of, mapped, shortlisted
from pcfgnat.runtimes.native.kernels.output import (
    SPECIAL,
    best_room,
    best_tokens,
    pack_types,
    panels_room,
)
from pcfgnat.runtimes.native.kernels.products import address, at, jit, whole_vectors
from pcfgnat.runtimes.native.kernels.rows import embed_rows


@jit
def remembered(ops, model, memory_bytes, memory_scales):
    """Return keys and values of encoder states for all layers of the reader."""
    return mapped(ops, model[m.READER_KEYS_VALUES], memory_bytes, memory_scales)


@jit
def read_tokens(
    ops, model, ids, places, spans, past, past_spans, growing, visible, memory, sources, states, bytes_,
    scales,
):  # fmt: skip
    """Write the decoder's states of new tokens, as floats and as bytes with scales.

    past:    keys and values of all tokens that were read, by row; new ones are entered at the end of spans
    growing: 1 if each new token of a sentence sees those before it, and `visible` has no rows
    visible: `[B, Q, S]`, which tokens each new one sees
    memory:  keys and values of encoder states, of which sentence b looks at the rows `sources[b]`
    """
    stack, rows = model[m.READER], len(ids)
    width = long_at(stack + WIDTH)
    x = np.empty((rows, width), np.float32)
    embed_rows(
        ops, rows, width, at(ids), at(places), model[m.TOKENS], model[m.TOKEN_SCALES],
        model[m.READER_POSITIONS], at(x),
    )  # fmt: skip
    longest = max(longest_of(spans), longest_of(past_spans), longest_of(sources))
    work = np.empty(layout(stack, rows, longest)[-1], np.uint8)
    run_layers(
        ops, stack, len(spans), at(spans), longest, at(x), at(sources), at(memory), at(past_spans), at(past),
        past.strides[0], growing, at(visible) if len(visible) > 0 else 0, visible.strides[0],
        visible.strides[1], at(states), at(bytes_), at(scales), at(work),
    )  # fmt: skip
    used(ids, places, spans, past, past_spans, visible, memory, sources, states, bytes_, scales, x, work)


@jit
def packed_shortlists(ops, model, types, bounds, weights):
    """Pack the tokens that are looked at for each sentence; returns the memory that `weights` point into."""
    width, size = long_at(model[m.READER] + WIDTH), np.int64(0)
    for b in range(len(weights)):
        weights[b] = size
        size += panels_room(width, bounds[b + 1] - bounds[b]) if bounds[b + 1] > bounds[b] else 0
    memory = np.empty(size, np.uint8)
    for b in range(len(weights)):
        chosen = bounds[b + 1] - bounds[b]
        if chosen > 0:
            weights[b] += at(memory)
            pack_types(
                ops, at(types) + 8 * bounds[b], chosen, width, model[m.TOKENS], model[m.ENTRIES], weights[b]
            )
        else:
            weights[b] = model[m.ALL_TOKENS]
    used(types)
    return memory


@jit
def write_greedily(
    ops, model, memory_bytes, memory_scales, ids, sources, limits, types, bounds, tokens, lengths, scores
):
    """Write the most probable token behind what is written of each sentence, until all have ended.

    limits: greatest lengths; the last token that a limit allows is eos
    types:  room for the shortlists of all sentences
    """
    batch, width = len(sources), memory_bytes.shape[1]
    memory = remembered(ops, model, memory_bytes, memory_scales)
    shortlisted(ops, model, ids, sources, types, bounds)
    weights = np.empty(batch, np.int64)
    packed = packed_shortlists(ops, model, types, bounds, weights)
    room = whole_vectors(limits.max())
    past = np.empty((batch * room, memory.shape[1]), np.float32)
    states, bytes_ = np.empty((batch, width), np.float32), np.empty((batch, width), np.uint8)
    scales, work = np.empty(batch, np.float32), np.empty(best_room(), np.uint8)
    best, place = np.empty(1, np.float32), np.empty(1, np.int64)
    special, visible = np.empty((1, SPECIAL + 2), np.float32), np.empty((0, 0, 0), np.bool_)
    open_, count, written = np.arange(batch), batch, np.int64(1)  # not a literal: see `verify_drafts`
    lengths[:], scores[:] = 1, 0.0
    while count > 0:
        own = open_[:count]
        spans, past_spans = np.empty((count, 2), np.int64), np.empty((count, 2), np.int64)
        last, places = np.empty(count, np.int64), np.full(count, written - 1)
        for r in range(count):
            spans[r, 0], spans[r, 1] = r, r + 1
            past_spans[r, 0], past_spans[r, 1] = own[r] * room, own[r] * room + written
            last[r] = tokens[own[r], written - 1]
        read_tokens(
            ops, model, last, places, spans, past, past_spans, 1, visible, memory, sources[own], states,
            bytes_, scales,
        )  # fmt: skip
        left = 0
        for r in range(count):
            b = own[r]
            best_tokens(
                ops, 1, address(bytes_, r, 0), at(scales) + 4 * r, weights[b], at(best), at(place),
                at(special), at(work),
            )  # fmt: skip
            token = types[bounds[b] + place[0]] if bounds[b + 1] > bounds[b] else place[0] + SPECIAL
            ends = written + 1 >= limits[b] or special[0, EOS] > best[0]
            tokens[b, written] = EOS if ends else token
            scores[b] += special[0, EOS] if ends else best[0]
            lengths[b] = written + 1
            if not ends:
                open_[left] = b
                left += 1
        count, written = left, written + 1
    used(packed, bytes_, scales, best, place, special, work)
