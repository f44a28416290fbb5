"""Whole networks: from ids to states, and from states to rules, in one call each."""

import numpy as np

from pcfgnat.runtimes.native.kernels.embedding import add_opposite, blanks, embed, embed_at
from pcfgnat.runtimes.native.kernels.layers import decode, encode, mapped, read
from pcfgnat.runtimes.native.kernels.products import jit
from pcfgnat.runtimes.native.kernels.rows import quantise
from pcfgnat.runtimes.native.kernels.rules import chain_rules, prefix_rules, transitions, vectors


@jit
def encode_sources(
    ids, bounds, tokens, token_scales, factor, positions, heads, pre_norm, is_gelu, packed, linears,
    norms, layers,
):  # fmt: skip
    """Return the encoder's states of several sentences, one under the other."""
    x = embed(ids, bounds, tokens, token_scales, factor, positions)
    encode(x, bounds, heads, pre_norm, is_gelu, packed, linears, norms, layers)
    return x


@jit
def fill_blanks(
    memory, source_bounds, bounds, kinds, positions, copies, heads, pre_norm, is_gelu, packed, linears, norms,
    layers,
):  # fmt: skip
    """Return the decoder's states of empty canvases.

    linears: of keys and values, of copies if there are any, then those of the layers
    """
    x = blanks(bounds, kinds, positions)
    if copies:
        add_opposite(x, bounds, mapped(memory, packed, linears[1]), source_bounds)
    keys_values = mapped(memory, packed, linears[0])
    decode(
        x, bounds, keys_values, source_bounds, heads, pre_norm, is_gelu, packed, linears[2:], norms, layers
    )
    return x


@jit
def keys_and_values(memory, packed, linears, index):
    """Return what decoders look at: one weight of encoder states, whichever is asked for."""
    return mapped(memory, packed, linears[index])


@jit
def read_tokens(
    ids, places, bounds, past, kept, visible, memory, memory_bounds, tokens, token_scales, factor, positions,
    heads, pre_norm, is_gelu, packed, linears, norms, layers,
):  # fmt: skip
    """Return the decoder's states of new tokens; `memory` has keys and values of the encoder's states."""
    x = embed_at(ids, places, tokens, token_scales, factor, positions)
    read(
        x, bounds, past, kept, visible, memory, memory_bounds, heads, pre_norm, is_gelu, packed, linears,
        norms, layers,
    )  # fmt: skip
    return x


@jit
def grammar_rules(
    states,
    bounds,
    block,
    heads,
    gated,
    packed,
    linears,
    chain_positions,
    other_positions,
    rules,
    chain,
    prefix,
):
    """Write the rules of grammars to padded tables `[B, C, d, C]` and `[B, C, R]`.

    linears: of nodes on the main chain, and of those off it
    """
    width = states.shape[1]
    bytes_, scales = np.empty(states.shape, np.uint8), np.empty(len(states), np.float32)
    for row in range(len(states)):
        quantise(states, row, bytes_, scales)
    for b in range(len(bounds) - 1):
        first, count = bounds[b], bounds[b + 1] - bounds[b]
        nodes = (count - 2) // block + 1
        on_chain = np.empty((nodes, linears[0, 3]), np.float32)
        vectors(bytes_, scales, first + 1, nodes, block, packed, linears[0], chain_positions, on_chain)
        others = np.empty((1 + (nodes - 1) * (block - 1), linears[1, 3]), np.float32)
        if block <= 2:
            vectors(
                bytes_, scales, first, len(others), np.int64(2), packed, linears[1], other_positions, others
            )
        else:
            off = np.empty((len(others), width), np.uint8)
            off_scales = np.empty(len(others), np.float32)
            for index in range(len(others)):
                tree, place = (index - 1) // (block - 1), (index - 1) % (block - 1)
                row = first + (tree * block + place + 2 if index > 0 else 0)
                off[index] = bytes_[row]
                off_scales[index] = scales[row]
            vectors(
                off,
                off_scales,
                np.int64(0),
                len(others),
                np.int64(1),
                packed,
                linears[1],
                other_positions,
                others,
            )
        chain_rules(on_chain, others, width, nodes, block, heads, gated, chain[b])
        if prefix.shape[2] > 0:
            prefix_rules(others, rules, nodes, block, width, heads, gated, prefix[b])


@jit
def graph_transitions(states, bounds, heads, gated, packed, linears, positions, chain):
    """Write the transitions of graphs to a padded table `[B, M, 1, M]`."""
    width = states.shape[1]
    bytes_, scales = np.empty(states.shape, np.uint8), np.empty(len(states), np.float32)
    for row in range(len(states)):
        quantise(states, row, bytes_, scales)
    for b in range(len(bounds) - 1):
        nodes = bounds[b + 1] - bounds[b]
        of_nodes = np.empty((nodes, linears[0, 3]), np.float32)
        vectors(bytes_, scales, bounds[b], nodes, np.int64(1), packed, linears[0], positions, of_nodes)
        transitions(of_nodes, nodes, width, heads, gated, chain[b])
