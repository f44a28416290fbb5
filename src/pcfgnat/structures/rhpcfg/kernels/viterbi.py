"""The best derivation: of a target, or of every length when each symbol emits its best token."""

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import (
    NEG_INF,
    fill_prefix_values,
    highest_node,
    jit,
    lowest_node,
    lowest_parent,
    prefix_symbol,
)


@jit
def best_right(row, spans, start, stop):
    """Largest `row + spans` over right children."""
    best = NEG_INF
    for c in range(start, stop):
        best = max(best, row[c] + spans[c])
    return best


@jit
def best_left(value, tokens, states, rights, s, a, length, block):
    """Best S[a, s] and the prefix state that gives it."""
    best, best_state = NEG_INF, -1
    for q in range(states.shape[0] if a > 0 else 1):
        rest = s + states[q, 1] + 1
        if rest < length:
            term = value[q, a, s] + tokens[1 + a * block, rest - 1] + rights[rest, a, states[q, 0]]
            if term > best:
                best, best_state = term, q
    return best, best_state


@jit
def fill_tables(chain, prefix, tokens, states, splits, length, chain_length, value, spans, rights, any_start):
    """Fill S and G under max; with `any_start` for a root anywhere, otherwise for the root at 0."""
    block = chain.shape[1]
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    fill_prefix_values(value, prefix, tokens, states, splits, length, chain_length, block, True)
    spans[length - 1, chain_length - 1] = tokens[1 + (chain_length - 1) * block, length - 1]
    for s in range(length - 1, -1, -1):
        low = 0 if any_start else lowest_node(s, block)
        high = highest_node(length - s, chain_length, block)
        if s < length - 1:
            for a in range(low, high + 1):
                spans[s, a], _ = best_left(value, tokens, states, rights, s, a, length, block)
        for a in range(0 if any_start else lowest_parent(s, block), high):
            for j in range(block if a > 0 else 1):
                rights[s, a, j] = best_right(chain[a, j], spans[s], max(a + 1, low), high + 1)


@jit
def trace(chain, prefix, tokens, states, splits, start, length, chain_length, value, spans, rights, position):
    """Follow the best choices from the root at `start`; enter into `position[symbol]` what it emits."""
    block = chain.shape[1]
    a, s = 0, start
    pending = np.empty((states.shape[0] * 2 + 2, 2), dtype=np.int64)
    while a < chain_length - 1:
        _, q = best_left(value, tokens, states, rights, s, a, length, block)
        rest = s + states[q, 1] + 1
        position[1 + a * block] = rest - 1 - start
        trace_prefix(prefix, tokens, states, splits, q, a, s, start, value, pending, block, position)
        row, wanted = chain[a, states[q, 0]], rights[rest, a, states[q, 0]]
        following = a + 1
        while row[following] + spans[rest, following] != wanted:
            following += 1
        a, s = following, rest
    position[1 + a * block] = s - start


@jit
def trace_prefix(prefix, tokens, states, splits, q, k, s, start, value, pending, block, position):
    """Enter the positions of one prefix tree."""
    count = 1
    pending[0, 0], pending[0, 1] = q, s
    while count > 0:
        count -= 1
        q, i = pending[count, 0], pending[count, 1]
        if q == 0:
            continue
        if states[q, 1] == 1:
            position[prefix_symbol(k, states[q, 0], block)] = i - start
            continue
        best, best_split = NEG_INF, -1
        for p in range(splits.shape[0]):
            state, rule, left, right, offset, wide = splits[p]
            if state == q:
                symbol = prefix_symbol(k, offset, block)
                weight = np.float64(prefix[k, rule])
                term = weight + value[left, k, i] + tokens[symbol, i + wide] + value[right, k, i + wide + 1]
                if term > best:
                    best, best_split = term, p
        _, _, left, right, offset, wide = splits[best_split]
        position[prefix_symbol(k, offset, block)] = i + wide - start
        pending[count, 0], pending[count, 1] = left, i
        pending[count + 1, 0], pending[count + 1, 1] = right, i + wide + 1
        count += 2


@jit
def best_batch(first, last, chain, prefix, tokens, chain_lengths, lengths, states, splits, score, position):
    """Best derivation of each target of sentences `first … last - 1`."""
    nodes, block, width = chain.shape[1], chain.shape[2], tokens.shape[2]
    value = np.empty((states.shape[0], nodes, width))
    spans = np.empty((width, nodes))
    rights = np.empty((width, nodes, block))
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
def tables_batch(first, last, chain, prefix, tokens, chain_lengths, states, splits, values, spans, rights):
    """Tables of the best derivations of all lengths of sentences `first … last - 1`."""
    width = tokens.shape[2]
    for b in range(first, last):
        fill_tables(
            chain[b], prefix[b], tokens[b], states, splits, width, chain_lengths[b], values[b], spans[b], rights[b], True
        )


@jit
def trace_batch(first, last, chain, prefix, tokens, chain_lengths, wanted, states, splits, values, spans, rights, position):
    """Positions of the best derivation of the wanted length of each sentence; none where that is impossible."""
    width = tokens.shape[2]
    for b in range(first, last):
        position[b] = -1
        start = width - wanted[b]
        if 0 <= start < width and spans[b, start, 0] > NEG_INF:
            trace(
                chain[b],
                prefix[b],
                tokens[b],
                states,
                splits,
                start,
                width,
                chain_lengths[b],
                values[b],
                spans[b],
                rights[b],
                position[b],
            )
