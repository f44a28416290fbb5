"""Drafts of a lattice that the reader verifies, all rounds of a sentence in one call."""

import numpy as np

from pcfgnat.grammar.kernels.drafts import continue_draft, fill_free, finish_draft, judge_draft
from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.layers import LAYERS
from pcfgnat.runtimes.native.kernels.looking import columns_of
from pcfgnat.runtimes.native.kernels.memory import long_at, used
from pcfgnat.runtimes.native.kernels.network import BOS, EOS, span_of
from pcfgnat.runtimes.native.kernels.output import (
    SPECIAL,
    best_room,
    best_tokens,
    pack_types,
    panels_room,
)
from pcfgnat.runtimes.native.kernels.products import at, jit, whole_vectors
from pcfgnat.runtimes.native.kernels.reading import read_tokens


@jit
def read_draft(ops, model, tokens, given, size, past, memory, source, types, weight):
    """Read the last verified token and a draft but for its end; see `Reading` for what is returned."""
    width = memory.shape[1] // 2 // long_at(model[m.READER] + LAYERS)
    states, bytes_ = np.empty((size, width), np.float32), np.empty((size, width), np.uint8)
    scales, score, place = np.empty(size, np.float32), np.empty(size, np.float32), np.empty(size, np.int64)
    special, work = np.empty((size, SPECIAL + 2), np.float32), np.empty(best_room(), np.uint8)
    first, last = given - 1, given - 1 + size
    read_tokens(
        ops, model, tokens[first:last], np.arange(first, last), span_of(0, size), past,
        span_of(0, last), 1, np.empty((0, 0, 0), np.bool_), memory, source, states, bytes_, scales,
    )  # fmt: skip
    best_tokens(ops, size, at(bytes_), at(scales), weight, at(score), at(place), at(special), at(work))
    asked = columns_of(ops, model, tokens[given : given + size], bytes_, scales, special)
    best, highest = np.empty((1, size), np.int64), np.empty((1, size), np.float32)
    own, end = np.empty((1, size), np.float32), np.empty((1, size), np.float32)
    for i in range(size):
        ends = special[i, EOS] > score[i]
        plain = types[place[i]] if len(types) > 0 else place[i] + SPECIAL
        best[0, i], highest[0, i] = (EOS, special[i, EOS]) if ends else (plain, score[i])
        own[0, i], end[0, i] = asked[i, i], special[i, EOS]
    used(work)
    return best, highest, own, end


@jit
def verify_drafts(
    ops, model, reader, memory, source, node_bytes, node_scales, node_special, chain, prefix, stop, offsets,
    lefts, moves, first_move, entries, offset, scores, best_ids, types, longest, limit, powers, least, slack,
    at_once, tokens, drafts, sizes, accepted, givens, wholes, trees,
):  # fmt: skip
    """Draft, read and judge until a sentence has ended.

    Returns its length, its score, that of the drafter's best tree of it, and how many rounds it took.

    model, reader: of the lattice's nodes, and of what reads
    memory:        keys and values of encoder states, of which the sentence looks at the rows `source`
    node_…:        states of the lattice's nodes, and their normalisers behind the special tokens
    longest:       greatest length of a draft; `limit` is that of what is verified
    at_once:       how many tokens of a draft are read before they are judged
    drafts …:      of each round: what was drafted, how many tokens, how many were accepted, how many had been
                   verified before, the log-probability of all that was read (of the whole draft, if that is
                   read at once), the score of its best tree
    """
    width = node_bytes.shape[1]
    best = np.empty((stop, offsets.shape[0] + 1, longest + 1))
    fill_free(chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, scores, best)
    front = np.full((stop, offsets.shape[0]), -np.inf)
    front[0, offsets.shape[0] - chain.shape[1]] = 0.0
    weight, packed = reader[m.ALL_TOKENS], np.empty(panels_room(width, len(types)), np.uint8)
    if len(types) > 0:
        weight = at(packed)
        pack_types(ops, at(types), len(types), width, reader[m.TOKENS], reader[m.ENTRIES], weight)
    past = np.empty((whole_vectors(limit + 1), memory.shape[1]), np.float32)
    bos, eos = np.int64(BOS), np.int64(EOS)  # not literals, for which all would be compiled again
    tokens[0] = bos
    known, given, rounds, score, ended = np.int64(0), np.int64(1), 0, 0.0, False
    while not ended:
        columns = scores.reshape(-1, 1)  # the root emits bos, and nothing else does
        if given > 1:
            columns = columns_of(ops, model, tokens[known:given], node_bytes, node_scales, node_special)
        proposed, tree = continue_draft(
            chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, best_ids, best, columns,
            tokens, known, given, bos, eos, least, front, powers,
        )  # fmt: skip
        known, size = given, max(min(proposed, limit - given), 1)
        tokens[given + size - 1] = eos
        drafts[rounds, :size], sizes[rounds] = tokens[given : given + size], size
        trees[rounds] = tree if size == proposed else -np.inf  # else it was cut
        taken, part, givens[rounds], wholes[rounds] = np.int64(0), np.int64(0), given, score
        while taken == part and taken < size:  # as long as all of it is accepted
            count = min(at_once, size - taken)
            found, highest, own, end = read_draft(
                ops, reader, tokens, given + taken, count, past, memory, source, types, weight
            )
            draft = drafts[rounds : rounds + 1, taken : taken + count].copy()
            good, last, more, whole = judge_draft(
                found, highest, own, end, draft, np.int64(0), count, limit - given - taken, eos, slack
            )
            taken, part, score, wholes[rounds] = (
                taken + good, part + count, score + more, wholes[rounds] + whole,
            )  # fmt: skip
        accepted[rounds], ended = taken, last == eos
        rounds += 1
        given += min(taken, size - 1)
        tokens[given] = last
        given += 1
    columns = columns_of(ops, model, tokens[known:given], node_bytes, node_scales, node_special)
    tree = finish_draft(
        chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, tokens, known,
        given, bos, eos, least, front,
    )  # fmt: skip
    used(types, packed, past, memory, node_bytes, node_scales, node_special)
    return given, score, tree, rounds
