"""The best derivation: of a target, or of every length when each symbol emits its best token."""

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import NEG_INF, fill_prefix_values, jit, rest_range, start_range


@jit
def raise_to(best, weight, row, first, last):
    """`best[t] = max(best[t], weight + row[t])`."""
    for t in range(first, last):
        value = weight + row[t]
        best[t] = value if value > best[t] else best[t]


@jit
def best_left(value, own_tokens, states, rights, s, length, lefts):
    """Best S[a, s] and the prefix state that gives it."""
    best, best_state = NEG_INF, -1
    for q in range(lefts):
        rest = s + states[q, 1] + 1
        if rest < length:
            term = value[q, s] + own_tokens[rest - 1] + rights[states[q, 0], rest]
            if term > best:
                best, best_state = term, q
    return best, best_state


@jit
def fill_tables(chain, prefix, tokens, states, splits, length, chain_length, value, spans, rights, any_start):
    """Fill S and G under max; with `any_start` for a root anywhere, otherwise for the root at 0."""
    block, stop = chain.shape[1], chain_length
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    spans[stop - 1, length - 1] = tokens[1 + (stop - 1) * block, length - 1]
    for a in range(stop - 2, -1, -1):
        first, last = rest_range(a, length, chain_length, block, any_start)
        for j in range(block if a > 0 else 1):
            for c in range(a + 1, stop):
                weight = np.float64(chain[a, j, c])
                if weight > NEG_INF:
                    raise_to(rights[a, j], weight, spans[c], first, last)
        if a > 0:
            fill_prefix_values(value, prefix[a], tokens, states, splits, length, 1 + (a - 1) * block, True)
        first, last = start_range(a, length, chain_length, block, any_start)
        lefts = states.shape[0] if a > 0 else 1
        for s in range(first, last):
            spans[a, s], _ = best_left(value, tokens[1 + a * block], states, rights[a], s, length, lefts)


@jit
def trace(chain, prefix, tokens, states, splits, start, length, chain_length, value, spans, rights, position):
    """Follow the best choices from the root at `start`; enter into `position[symbol]` what it emits."""
    block = chain.shape[1]
    a, s = 0, start
    while a < chain_length - 1:
        own = 1 + a * block
        if a > 0:
            fill_prefix_values(value, prefix[a], tokens, states, splits, length, own - block, True)
        _, q = best_left(value, tokens[own], states, rights[a], s, length, states.shape[0] if a > 0 else 1)
        rest = s + states[q, 1] + 1
        position[own] = rest - 1 - start
        trace_prefix(prefix[a], tokens, states, splits, q, s, own - block, value, position, start)
        left, following = states[q, 0], a + 1
        while chain[a, left, following] + spans[following, rest] != rights[a, left, rest]:
            following += 1
        a, s = following, rest
    position[1 + a * block] = s - start


@jit
def trace_prefix(prefix, tokens, states, splits, top_state, s, top, value, position, start):
    """Enter the positions of one prefix tree."""
    pending = np.empty((states.shape[0] + 2, 2), dtype=np.int64)
    pending[0, 0], pending[0, 1] = top_state, s
    count = 1
    while count > 0:
        count -= 1
        q, i = pending[count, 0], pending[count, 1]
        if q == 0:
            continue
        if states[q, 1] == 1:
            position[top + states[q, 0]] = i - start
            continue
        best, best_split = NEG_INF, -1
        for p in range(splits.shape[0]):
            state, rule, left, right, offset, wide = splits[p]
            if state == q:
                weight = np.float64(prefix[rule])
                term = weight + value[left, i] + tokens[top + offset, i + wide] + value[right, i + wide + 1]
                if term > best:
                    best, best_split = term, p
        _, _, left, right, offset, wide = splits[best_split]
        position[top + offset] = i + wide - start
        pending[count, 0], pending[count, 1] = left, i
        pending[count + 1, 0], pending[count + 1, 1] = right, i + wide + 1
        count += 2


@jit
def best_batch(first, last, chain, prefix, tokens, chain_lengths, lengths, states, splits, score, position):
    """Best derivation of each target of sentences `first … last - 1`."""
    nodes, block, width = chain.shape[1], chain.shape[2], tokens.shape[2]
    value = np.zeros((states.shape[0], width))  # row 0, ε, stays 0
    spans = np.empty((nodes, width))
    rights = np.empty((nodes, block, width))
    for b in range(first, last):
        n, c = lengths[b], chain_lengths[b]
        position[b] = -1
        score[b] = NEG_INF
        if n < 2:
            continue
        fill_tables(chain[b], prefix[b], tokens[b], states, splits, n, c, value, spans, rights, False)
        score[b] = spans[0, 0]
        if spans[0, 0] > NEG_INF:
            trace(chain[b], prefix[b], tokens[b], states, splits, 0, n, c, value, spans, rights, position[b])


@jit
def tables_batch(first, last, chain, prefix, tokens, chain_lengths, states, splits, spans, rights):
    """Tables of the best derivations of all lengths of sentences `first … last - 1`."""
    width = tokens.shape[2]
    value = np.zeros((states.shape[0], width))  # row 0, ε, stays 0
    for b in range(first, last):
        fill_tables(
            chain[b], prefix[b], tokens[b], states, splits, width, chain_lengths[b], value, spans[b], rights[b], True
        )


@jit
def trace_batch(first, last, chain, prefix, tokens, chain_lengths, wanted, states, splits, spans, rights, position):
    """Positions of the best derivation of the wanted length of each sentence; none where that is impossible."""
    width = tokens.shape[2]
    value = np.zeros((states.shape[0], width))  # row 0, ε, stays 0
    for b in range(first, last):
        position[b] = -1
        start, c = width - wanted[b], chain_lengths[b]
        if 0 <= start < width and spans[b, 0, start] > NEG_INF:
            trace(
                chain[b], prefix[b], tokens[b], states, splits, start, width, c, value, spans[b], rights[b], position[b]
            )
