"""Whole networks: from ids to states, and from states to rules and tokens.

Arrays whose addresses are used must live until the end, so each function ends with a use of them all.
"""

import numpy as np

from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.layers import WIDTH, layout, run_layers
from pcfgnat.runtimes.native.kernels.memory import copy, long_at, used
from pcfgnat.runtimes.native.kernels.output import (
    SPECIAL,
    best_room,
    best_tokens,
    choose_types,
    pack_types,
    panels_room,
)
from pcfgnat.runtimes.native.kernels.products import COLUMNS, VECTOR, address, at, jit, linear
from pcfgnat.runtimes.native.kernels.rows import blank_rows, byte_rows, embed_rows
from pcfgnat.runtimes.native.kernels.rules import node_vectors, prefix_rules, rules_layout, score_rules

BOS, EOS = 2, 3  # of the special tokens


@jit
def span_of(first, last):
    """Return the span of one sentence."""
    span = np.empty((1, 2), np.int64)
    span[0, 0], span[0, 1] = first, last
    return span


@jit
def longest_of(spans):
    """Return the number of rows of the longest sentence."""
    most = 0
    for b in range(len(spans)):
        most = max(most, spans[b, 1] - spans[b, 0])
    return most


@jit
def encode_sources(ops, model, ids, spans, bytes_, scales):
    """Write the encoder's states of several sentences, one under the other, as bytes with scales."""
    stack, rows = model[m.ENCODER], len(ids)
    width = long_at(stack + WIDTH)
    places, x = np.empty(rows, np.int64), np.empty((rows, width), np.float32)
    states = np.empty_like(x)
    for b in range(len(spans)):
        for row in range(spans[b, 0], spans[b, 1]):
            places[row] = row - spans[b, 0]
    embed_rows(
        ops, rows, width, at(ids), at(places), model[m.TOKENS], model[m.TOKEN_SCALES],
        model[m.SOURCE_POSITIONS], at(x),
    )  # fmt: skip
    longest = longest_of(spans)
    work = np.empty(layout(stack, rows, longest)[-1], np.uint8)
    run_layers(
        ops, stack, len(spans), at(spans), longest, at(x), 0, 0, 0, 0, 0, 0, 0, 0, 0,
        at(states), at(bytes_), at(scales), at(work),
    )  # fmt: skip
    used(ids, spans, places, x, states, bytes_, scales, work)


@jit
def mapped(ops, weight, bytes_, scales):
    """Return rows times a weight, with room for a vector of rows behind them."""
    columns = long_at(weight + COLUMNS)
    out = np.empty((len(bytes_) + VECTOR, columns), np.float32)
    linear(
        ops, len(bytes_), at(bytes_), bytes_.shape[1], at(scales), 4, weight, at(out),
        4 * columns,
    )  # fmt: skip
    used(bytes_, scales)
    return out


@jit
def fill_blanks(ops, model, memory_bytes, memory_scales, sources, spans, states, bytes_, scales):
    """Write the decoder's states of empty canvases, as floats and as bytes with scales.

    sources, spans: where the rows of each sentence begin and end, in the source and on the canvas
    """
    stack, rows, width = model[m.DECODER], spans[-1, 1], memory_bytes.shape[1]
    x, copied = np.empty((rows, width), np.float32), np.empty((0, 0), np.float32)
    if model[m.COPY]:
        copied = mapped(ops, model[m.COPY], memory_bytes, memory_scales)
    for b in range(len(spans)):
        first, source = spans[b, 0], sources[b, 0]
        blank_rows(
            ops, spans[b, 1] - first, sources[b, 1] - source, width, model[m.CANVAS_TOKENS],
            model[m.CANVAS_POSITIONS], address(copied, source, 0) if len(copied) else 0, address(x, first, 0),
        )  # fmt: skip
    memory = mapped(ops, model[m.KEYS_VALUES], memory_bytes, memory_scales)
    longest = max(longest_of(spans), longest_of(sources))
    work = np.empty(layout(stack, rows, longest)[-1], np.uint8)
    run_layers(
        ops, stack, len(spans), at(spans), longest, at(x), at(sources),
        at(memory), 0, 0, 0, 0, 0, 0, 0, at(states), at(bytes_), at(scales),
        at(work),
    )  # fmt: skip
    used(sources, spans, x, copied, memory, states, bytes_, scales, work)


@jit
def score_grammars(ops, model, bytes_, scales, spans, chain, prefix):
    """Write the rules of grammars, or the transitions of graphs, to tables `[B, C, d, C]` and `[B, C, R]`."""
    width, block, heads, gated = bytes_.shape[1], model[m.BLOCK], model[m.RULE_HEADS], model[m.GATED]
    on_chain, off_chain = model[m.ON_CHAIN], model[m.OFF_CHAIN]
    columns, first_node, longest = long_at(on_chain + COLUMNS), model[m.FIRST_NODE], chain.shape[1]
    for b in range(len(spans)):
        first, count = spans[b, 0], spans[b, 1] - spans[b, 0]
        nodes = (count - 1 - first_node) // block + 1
        parents = np.empty((nodes + VECTOR, columns), np.float32)
        node_vectors(
            ops, nodes, address(bytes_, first + first_node, 0), width * block,
            at(scales) + 4 * (first + first_node), 4 * block, on_chain, model[m.CHAIN_POSITIONS],
            at(parents),
        )  # fmt: skip
        others = off_chain_vectors(ops, model, bytes_, scales, first, nodes) if off_chain else parents[:0]
        stride = others.strides[0]
        work = np.empty(rules_layout(width, heads, nodes, block)[-1], np.uint8)
        score_rules(
            ops, width, heads, gated, nodes, block, at(parents), parents.strides[0],
            at(others) if off_chain else 0, stride, at(chain) + b * chain.strides[0], longest,
            at(work),
        )  # fmt: skip
        if prefix.shape[2] > 0:
            prefix_rules(
                ops, width, heads, gated, nodes, block, at(others), stride, model[m.PREFIX_RULES],
                prefix.shape[2], at(prefix) + b * prefix.strides[0], at(work),
            )  # fmt: skip
        used(parents, others, work)
    used(bytes_, scales, chain, prefix)


@jit
def off_chain_vectors(ops, model, bytes_, scales, first, nodes):
    """Return vectors of the nodes off the chain, that of ε first, one tree after the other."""
    width, block, weight = bytes_.shape[1], model[m.BLOCK], model[m.OFF_CHAIN]
    of_tree = max(block - 1, 1)
    count = 1 + (nodes - 1) * (block - 1)
    rows, own_scales = np.empty((count, width), np.uint8), np.empty(count, np.float32)
    for index in range(count):
        tree, place = (index - 1) // of_tree, (index - 1) % of_tree
        row = first + (tree * block + place + 2 if index > 0 else 0)
        copy(address(rows, index, 0), address(bytes_, row, 0), width)
        own_scales[index] = scales[row]
    out = np.empty((count, long_at(weight + COLUMNS)), np.float32)
    node_vectors(
        ops, count, at(rows), width, at(own_scales), 4, weight, model[m.OTHER_POSITIONS],
        at(out),
    )  # fmt: skip
    used(rows, own_scales, bytes_)
    return out


@jit
def shortlisted(ops, model, ids, spans, types, bounds):
    """Write the tokens that each source makes likely, one after the other, and where those of each begin."""
    shortlist, vocabulary = model[m.SHORTLIST], model[m.VOCABULARY]
    marks = np.empty(vocabulary + 8, np.uint8)
    bounds[:] = 0
    for b in range(len(spans) if shortlist else 0):
        first = spans[b, 0]
        bounds[b + 1] = bounds[b] + choose_types(
            ops, at(ids) + 8 * first, spans[b, 1] - first, shortlist, vocabulary, at(marks),
            at(types) + 8 * bounds[b],
        )  # fmt: skip
    used(ids, types, marks)


@jit
def emit(ops, model, bytes_, scales, spans, types, bounds, score, token, special):
    """Write the best plain token of each row and its log-probability, and those of the special tokens.

    types, bounds: the tokens that are looked at, of each sentence; all, if there are none
    special:       of each row, also its normaliser and the sum of all exponentials
    """
    width, work = bytes_.shape[1], np.empty(best_room(), np.uint8)
    for b in range(len(spans)):
        first, count = spans[b, 0], spans[b, 1] - spans[b, 0]
        chosen, weight = bounds[b + 1] - bounds[b], model[m.ALL_TOKENS]
        memory, own = np.empty(panels_room(width, chosen), np.uint8), at(types) + 8 * bounds[b]
        if chosen > 0:
            weight = at(memory)
            pack_types(ops, own, chosen, width, model[m.TOKENS], model[m.ENTRIES], weight)
        best_tokens(
            ops, count, address(bytes_, first, 0), at(scales) + 4 * first, weight, at(score) + 4 * first,
            at(token) + 8 * first, address(special, first, 0), at(work),
        )  # fmt: skip
        for row in range(first, first + count):
            token[row] = types[bounds[b] + token[row]] if chosen > 0 else token[row] + SPECIAL
        used(memory)
    used(bytes_, scales, types, score, token, special, work)


@jit
def draft(
    ops, model, memory_bytes, memory_scales, ids, sources, spans, chain, prefix, states, bytes_, scales,
    types, bounds, special, row_score, row_token, score, token,
):  # fmt: skip
    """Write all that is known of grammars or graphs: rules, states, shortlists, and the best tokens.

    score, token: `[B, M]`, what each node emits best: bos the first, eos the last, no special token between
    """
    fill_blanks(ops, model, memory_bytes, memory_scales, sources, spans, states, bytes_, scales)
    chain[:], score[:], token[:] = -np.inf, -np.inf, 0
    score_grammars(ops, model, bytes_, scales, spans, chain, prefix)
    shortlisted(ops, model, ids, sources, types, bounds)
    emit(ops, model, bytes_, scales, spans, types, bounds, row_score, row_token, special)
    first = model[m.FIRST_NODE]
    for b in range(len(spans)):
        last = spans[b, 1] - 1 - spans[b, 0]
        for node in range(first, last + 1):
            score[b, node], token[b, node] = row_score[spans[b, 0] + node], row_token[spans[b, 0] + node]
        score[b, first], token[b, first] = special[spans[b, 0] + first, BOS], BOS
        score[b, last], token[b, last] = special[spans[b, 0] + last, EOS], EOS


@jit
def best_of_rows(ops, model, states, types, score, token, special):
    """Write the same as `emit` of rows of one sentence, which are given as floats."""
    rows, width = states.shape
    bytes_, scales = np.empty(states.shape, np.uint8), np.empty(rows, np.float32)
    byte_rows(ops, rows, width, at(states), at(bytes_), at(scales))
    used(states)
    spans, bounds = span_of(0, rows), span_of(0, len(types))[0]
    emit(ops, model, bytes_, scales, spans, types, bounds, score, token, special)
