"""Layers of a Transformer over the rows of several sentences, one under the other without padding.

A *stack* is the address of eight integers that describe layers. Spans are two integers for each sentence:
where its rows begin and end. What a sub-layer writes is added to its input by the norm that follows.
"""

from pcfgnat.runtimes.native.kernels.attention import attend
from pcfgnat.runtimes.native.kernels.memory import aligned, clear, copy, long_at
from pcfgnat.runtimes.native.kernels.operations import operation
from pcfgnat.runtimes.native.kernels.products import VECTOR, jit, linear, transpose, whole_vectors
from pcfgnat.runtimes.native.kernels.rows import activate_rows, byte_rows, norm_rows

# places of a stack's integers
WIDTH, FFN, HEADS, PRE_NORM, IS_GELU, LAYERS, LINEARS, NORMS = range(0, 64, 8)
WEIGHT = 32  # bytes of what describes a weight
# weights of a layer, in order: an encoder layer has the first four
PROJECT, SELF_OUTPUT, WIDEN, NARROW, QUERY, CROSS_OUTPUT = (WEIGHT * i for i in range(6))
ENCODER_LAYER, DECODER_LAYER = 4 * WEIGHT, 6 * WEIGHT
SPAN, END = 16, 8  # bytes of a span, and where in it its end is
CHUNK = 48  # rows that a feed-forward layer is run over together, so that they stay in the cache


@jit
def layout(stack, rows, longest):
    """Return where things lie in the memory that layers work in, and how large it is.

    longest: rows of the longest sentence, and most rows that any looks at
    """
    width, ffn, padded = long_at(stack + WIDTH), long_at(stack + FFN), whole_vectors(longest)
    mixed = aligned(4 * width * rows)
    projected = mixed + aligned(4 * width * rows)
    keys = projected + aligned(12 * width * (rows + VECTOR))  # whole vectors of rows are read
    scores = keys + aligned(4 * width * padded)
    zeros = scores + aligned(4 * longest * padded)
    wide = zeros + aligned(4 * width)
    wide_bytes = wide + aligned(4 * ffn * CHUNK)
    wide_scales = wide_bytes + aligned(ffn * CHUNK)
    return mixed, projected, keys, scores, zeros, wide, wide_bytes, wide_scales, wide_scales + 4 * CHUNK


@operation()
def feed_forward(ops, stack, weights, rows, bytes_, scales, update, wide, wide_bytes, wide_scales):
    """Widen, activate, narrow."""
    width, ffn, is_gelu = long_at(stack + WIDTH), long_at(stack + FFN), long_at(stack + IS_GELU)
    for first in range(0, rows, CHUNK):
        count, own, own_scales = min(CHUNK, rows - first), bytes_ + width * first, scales + 4 * first
        linear(ops, count, own, width, own_scales, 4, weights + WIDEN, wide, 4 * ffn)
        activate_rows(ops, count, ffn, wide, is_gelu, wide_bytes, wide_scales)
        out = update + 4 * width * first
        linear(ops, count, wide_bytes, ffn, wide_scales, 4, weights + NARROW, out, 4 * width)


@operation()
def look(
    ops, stack, sentences, spans, query, query_stride, seen_spans, memory, memory_stride, growing, visible,
    visible_sentence, visible_row, keys, scores, out,
):  # fmt: skip
    """Let the rows of each sentence look at keys and values, which stand side by side in rows of memory.

    seen_spans: which rows of memory; if `growing`, all of them for the last row, one less for each before
    visible:    see `attend`; for each sentence
    """
    width, heads = long_at(stack + WIDTH), long_at(stack + HEADS)
    for b in range(sentences):
        first, start = long_at(spans + SPAN * b), long_at(seen_spans + SPAN * b)
        count = long_at(spans + SPAN * b + END) - first
        seen = long_at(seen_spans + SPAN * b + END) - start
        own, key_stride = memory + memory_stride * start, 4 * whole_vectors(seen)
        transpose(ops, seen, width, own, memory_stride, keys, key_stride)
        attend(
            ops, heads, width // heads, count, query + query_stride * first, query_stride, seen, growing,
            keys, key_stride, own + 4 * width, memory_stride,
            visible + visible_sentence * b if visible else 0, visible_row, scores, out + 4 * width * first,
            4 * width,
        )  # fmt: skip


@operation()
def remember(ops, sentences, spans, past_spans, projected, size, past, past_stride):
    """Enter keys and values of new rows at the end of what each sentence has read."""
    for b in range(sentences):
        first, last = long_at(spans + SPAN * b), long_at(spans + SPAN * b + END)
        end = long_at(past_spans + SPAN * b + END)
        for row in range(first, last):
            source = projected + 3 * size // 2 * row + size // 2  # queries come first
            copy(past + past_stride * (end - last + row), source, size)


@operation()
def run_layers(
    ops, stack, sentences, spans, longest, x, source_spans, memory, past_spans, past, past_stride, growing,
    visible, visible_sentence, visible_row, states, bytes_, scales, work,
):  # fmt: skip
    """Run layers over rows; their states are written as floats and as bytes.

    longest: rows of the longest sentence, and most rows that any looks at
    memory:  of a decoder, keys and values of all layers side by side, by row of the source; 0: an encoder
    past:    of a decoder that reads tokens, the same of all that were read, with the new rows at the end of
             each sentence's span; 0: rows see each other
    """
    width, layers = long_at(stack + WIDTH), long_at(stack + LAYERS)
    pre_norm, norm, weights = long_at(stack + PRE_NORM), long_at(stack + NORMS), long_at(stack + LINEARS)
    rows, row, size = long_at(spans + SPAN * (sentences - 1) + END), 4 * width, 8 * width
    mixed, projected, keys, scores, zeros, wide, wide_bytes, wide_scales, _ = layout(stack, rows, longest)
    update, mixed, projected, keys, scores = work, work + mixed, work + projected, work + keys, work + scores
    zeros, wide, wide_bytes, wide_scales = work + zeros, work + wide, work + wide_bytes, work + wide_scales
    if pre_norm:
        clear(zeros, row)
        norm_rows(ops, rows, width, x, zeros, 0, norm, states, bytes_, scales)
        norm += size
    else:
        byte_rows(ops, rows, width, x, bytes_, scales)
    normed = states if pre_norm else x
    for layer in range(layers):
        linear(ops, rows, bytes_, width, scales, 4, weights + PROJECT, projected, 3 * row)
        seen_spans, seen, seen_stride = spans, projected + row, 3 * row
        if past:
            seen_spans, seen, seen_stride = past_spans, past + size * layer, past_stride
            remember(ops, sentences, spans, past_spans, projected, size, seen, past_stride)
        look(
            ops, stack, sentences, spans, projected, 3 * row, seen_spans, seen, seen_stride, growing, visible,
            visible_sentence, visible_row, keys, scores, mixed,
        )  # fmt: skip
        byte_rows(ops, rows, width, mixed, bytes_, scales)
        linear(ops, rows, bytes_, width, scales, 4, weights + SELF_OUTPUT, update, row)
        norm_rows(ops, rows, width, x, update, row, norm, normed, bytes_, scales)
        norm += size
        if memory:
            linear(ops, rows, bytes_, width, scales, 4, weights + QUERY, projected, row)
            look(
                ops, stack, sentences, spans, projected, row, source_spans, memory + size * layer,
                size * layers, 0, 0, 0, 0, keys, scores, mixed,
            )  # fmt: skip
            byte_rows(ops, rows, width, mixed, bytes_, scales)
            linear(ops, rows, bytes_, width, scales, 4, weights + CROSS_OUTPUT, update, row)
            norm_rows(ops, rows, width, x, update, row, norm, normed, bytes_, scales)
            norm += size
        feed_forward(ops, stack, weights, rows, bytes_, scales, update, wide, wide_bytes, wide_scales)
        out = normed if layer < layers - 1 else states
        norm_rows(ops, rows, width, x, update, row, norm, out, bytes_, scales)
        norm += size
        weights += DECODER_LAYER if memory else ENCODER_LAYER
