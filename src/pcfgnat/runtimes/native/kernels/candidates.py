"""Candidates of one sentence that the reader reads at once; what they begin with in common is read once."""

import numpy as np

from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.layers import LAYERS
from pcfgnat.runtimes.native.kernels.looking import columns_of
from pcfgnat.runtimes.native.kernels.memory import long_at, used
from pcfgnat.runtimes.native.kernels.network import span_of
from pcfgnat.runtimes.native.kernels.output import SPECIAL, best_room, best_tokens, pack_types, panels_room
from pcfgnat.runtimes.native.kernels.products import at, jit, whole_vectors
from pcfgnat.runtimes.native.kernels.reading import read_tokens

NOWHERE = -1


@jit
def grow_tree(texts, lengths, tokens, parents, depths, places):
    """Enter each beginning of a text once, the shortest of a text first; returns how many there are.

    places: `[R, N]`, the beginning that ends at each token but the last, which is not read
    """
    count = 0
    first, following = np.full(len(tokens), NOWHERE), np.full(len(tokens), NOWHERE)  # children, as lists
    for r in range(len(texts)):
        parent = NOWHERE
        for i in range(lengths[r] - 1):
            node = (0 if count else NOWHERE) if parent == NOWHERE else first[parent]
            while node != NOWHERE and tokens[node] != texts[r, i]:
                node = following[node]
            if node == NOWHERE:
                node, count = count, count + 1
                tokens[node], parents[node], depths[node] = texts[r, i], parent, i
                if parent == NOWHERE:
                    following[node] = NOWHERE
                else:
                    following[node], first[parent] = first[parent], node
            places[r, i] = parent = node
    return count


@jit
def score_texts(ops, model, memory, source, texts, lengths, types, scores):
    """Write the reader's log-probabilities of texts that all begin with the same token.

    memory: keys and values of encoder states, of which the sentence looks at the rows `source`
    types:  the tokens that are looked at for the normaliser; all, if there are none
    """
    most = texts.size
    tokens, parents, depths = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    places = np.empty(texts.shape, np.int64)
    count = grow_tree(texts, lengths, tokens, parents, depths, places)
    width = memory.shape[1] // 2 // long_at(model[m.READER] + LAYERS)
    past = np.empty((whole_vectors(count), memory.shape[1]), np.float32)
    visible = np.zeros((1, count, count), np.bool_)
    for node in range(count):
        if parents[node] != NOWHERE:
            for j in range(node):
                visible[0, node, j] = visible[0, parents[node], j]
        visible[0, node, node] = True
    states, bytes_ = np.empty((count, width), np.float32), np.empty((count, width), np.uint8)
    scales, span = np.empty(count, np.float32), span_of(0, count)
    read_tokens(
        ops, model, tokens[:count], depths[:count], span, past, span, 0, visible, memory, source, states,
        bytes_, scales,
    )  # fmt: skip
    weight, packed = model[m.ALL_TOKENS], np.empty(panels_room(width, len(types)), np.uint8)
    if len(types) > 0:
        weight = at(packed)
        pack_types(ops, at(types), len(types), width, model[m.TOKENS], model[m.ENTRIES], weight)
    best, place = np.empty(count, np.float32), np.empty(count, np.int64)
    special, work = np.empty((count, SPECIAL + 2), np.float32), np.empty(best_room(), np.uint8)
    best_tokens(ops, count, at(bytes_), at(scales), weight, at(best), at(place), at(special), at(work))
    used(types, packed, best, place, work)
    wanted, where = np.empty(most, np.int64), np.full(model[m.VOCABULARY], NOWHERE)
    different = 0
    for r in range(len(texts)):
        for i in range(1, lengths[r]):
            if where[texts[r, i]] == NOWHERE:
                where[texts[r, i]], wanted[different] = different, texts[r, i]
                different += 1
    columns = columns_of(ops, model, wanted[:different], bytes_, scales, special)
    for r in range(len(texts)):
        scores[r] = 0.0
        for i in range(1, lengths[r]):
            scores[r] += columns[places[r, i - 1], where[texts[r, i]]]
