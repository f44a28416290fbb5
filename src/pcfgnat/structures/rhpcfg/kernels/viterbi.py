"""The best derivation: of a target, or of every length when each symbol emits its best token."""

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import (
    NEG_INF,
    fill_prefix_values,
    jit,
    pick,
    rest_range,
    start_range,
)


@jit
def raise_to(best, weight, row, first, last):
    """`best[t] = max(best[t], weight + row[t])`."""
    out, span = best[first:last], row[first:last]
    for t in range(out.shape[0]):
        value = weight + span[t]
        out[t] = value if value > out[t] else out[t]


@jit
def best_left(value, sentence, a, rights, s):
    """Best S[a, s] and the prefix state that gives it."""
    states, own = sentence.states, sentence.tokens[1 + a * sentence.chain.shape[1]]
    best, best_state = NEG_INF, -1
    for q in range(states.shape[0] if a > 0 else 1):
        rest = s + states[q, 1] + 1
        if rest < sentence.length:
            term = value[q, s] + own[rest - 1] + rights[a, states[q, 0], rest]
            if term > best:
                best, best_state = term, q
    return best, best_state


@jit
def fill_tables(sentence, value, spans, rights, any_start):
    """Fill S and G under max; with `any_start` for a root anywhere, otherwise for the root at 0."""
    chain, stop = sentence.chain, sentence.stop
    block, end = chain.shape[1], sentence.length - 1
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    spans[stop - 1, end] = sentence.tokens[1 + (stop - 1) * block, end]
    for a in range(stop - 2, -1, -1):
        first, last = rest_range(sentence, a, any_start)
        for j in range(block if a > 0 else 1):
            for c in range(a + 1, stop):
                weight = np.float64(chain[a, j, c])
                if weight > NEG_INF and first < last:
                    raise_to(rights[a, j], weight, spans[c], first, last)
        if a > 0:
            fill_prefix_values(value, sentence, a, True)
        first, last = start_range(sentence, a, any_start)
        for s in range(first, last):
            spans[a, s], _ = best_left(value, sentence, a, rights, s)


@jit
def trace(sentence, start, value, spans, rights, position):
    """Follow the best choices from the root at `start`; enter into `position[symbol]` what it emits."""
    chain, states, block = sentence.chain, sentence.states, sentence.chain.shape[1]
    a, s = 0, start
    while a < sentence.stop - 1:
        if a > 0:
            fill_prefix_values(value, sentence, a, True)
        _, q = best_left(value, sentence, a, rights, s)
        left, rest = states[q, 0], s + states[q, 1] + 1
        position[1 + a * block] = rest - 1 - start
        trace_prefix(sentence, a, q, s, start, value, position)
        following = a + 1
        while chain[a, left, following] + spans[following, rest] != rights[a, left, rest]:
            following += 1
        a, s = following, rest
    position[1 + a * block] = s - start


@jit
def trace_prefix(sentence, a, top_state, s, start, value, position):
    """Enter the positions of one prefix tree."""
    states, splits, tokens = sentence.states, sentence.splits, sentence.tokens
    before = 1 + (a - 1) * sentence.chain.shape[1]
    pending = np.empty((states.shape[0] + 2, 2), dtype=np.int64)
    pending[0, 0], pending[0, 1] = top_state, s
    count = 1
    while count > 0:
        count -= 1
        q, i = pending[count, 0], pending[count, 1]
        if q == 0:
            continue
        if states[q, 1] == 1:
            position[before + states[q, 0]] = i - start
            continue
        best, best_split = NEG_INF, -1
        for p in range(splits.shape[0]):
            state, rule, left, right, offset, wide = splits[p]
            if state == q:
                weight = np.float64(sentence.prefix[a, rule])
                term = (
                    weight + value[left, i] + tokens[before + offset, i + wide] + value[right, i + wide + 1]
                )
                if term > best:
                    best, best_split = term, p
        _, _, left, right, offset, wide = splits[best_split]
        position[before + offset] = i + wide - start
        pending[count, 0], pending[count, 1] = left, i
        pending[count + 1, 0], pending[count + 1, 1] = right, i + wide + 1
        count += 2


@jit
def best_batch(first, last, batch, score, position):
    """Best derivation of each target of sentences `first … last - 1`."""
    nodes, block, width = batch.chain.shape[1], batch.chain.shape[2], batch.tokens.shape[2]
    value = np.zeros((len(batch.states), width))
    spans = np.empty((nodes, width))
    rights = np.empty((nodes, block, width))
    for b in range(first, last):
        position[b] = -1
        score[b] = NEG_INF
        if batch.lengths[b] >= 2:
            sentence = pick(batch, b)
            fill_tables(sentence, value, spans, rights, False)
            score[b] = spans[0, 0]
            if spans[0, 0] > NEG_INF:
                trace(sentence, 0, value, spans, rights, position[b])


@jit
def tables_batch(first, last, batch, spans, rights):
    """Tables of the best derivations of all lengths of sentences `first … last - 1`."""
    value = np.zeros((len(batch.states), batch.tokens.shape[2]))
    for b in range(first, last):
        fill_tables(pick(batch, b), value, spans[b], rights[b], True)


@jit
def trace_batch(first, last, batch, wanted, spans, rights, position):
    """Positions of the best derivation of the wanted length of each sentence; none where it is impossible."""
    width = batch.tokens.shape[2]
    value = np.zeros((len(batch.states), width))
    for b in range(first, last):
        position[b] = -1
        start = width - wanted[b]
        if 0 <= start < width and spans[b, 0, start] > NEG_INF:
            trace(pick(batch, b), start, value, spans[b], rights[b], position[b])
