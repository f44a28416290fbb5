"""Reading tokens one after the other: a decoder over what is new, with keys and values of what was read."""

import numpy as np

from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.layers import WIDTH, layout, run_layers
from pcfgnat.runtimes.native.kernels.memory import long_at
from pcfgnat.runtimes.native.kernels.network import longest_of, mapped, used
from pcfgnat.runtimes.native.kernels.products import at, jit
from pcfgnat.runtimes.native.kernels.rows import embed_rows

EOS = 3


@jit
def remembered(ops, model, memory_bytes, memory_scales):
    """Return keys and values of encoder states for all layers of the reader."""
    return mapped(ops, model[m.READER_KEYS_VALUES], memory_bytes, memory_scales)


@jit
def read_tokens(ops, model, ids, places, spans, past, past_spans, growing, visible, memory, sources):
    """Return the decoder's states of new tokens, as floats and as bytes with scales.

    past:    keys and values of all tokens that were read, by row; new ones are entered at the end of spans
    growing: 1 if each new token of a sentence sees those before it, and `visible` has no rows
    visible: `[B, Q, S]`, which tokens each new one sees
    memory:  keys and values of encoder states, of which sentence b looks at the rows `sources[b]`
    """
    stack, rows = model[m.READER], len(ids)
    width = long_at(stack + WIDTH)
    x = np.empty((rows, width), np.float32)
    states, bytes_, scales = np.empty_like(x), np.empty(x.shape, np.uint8), np.empty(rows, np.float32)
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
    used(ids, places, spans, past, past_spans, visible, memory, sources, x, work)
    return states, bytes_, scales
