"""The best derivation: of a target, or of every length when each symbol emits its best token."""

import numpy as np

from pcfgnat.grammar.kernels.common import (
    NEG_INF,
    fill_prefix_values,
    jit,
    rest_range,
    start_range,
)


@jit
def raise_rights(rights, chain, a, j, spans, stop, first, last):
    """`rights[a, j, t] = max_c chain[a, j, c] + spans[c, t]`, four right children at a time."""
    low, high, one = np.uint64(first), np.uint64(last), np.uint64(1)
    c, end = np.uint64(a + 1), np.uint64(stop)
    while c + one + one + one < end:
        d, e, f = c + one, c + one + one, c + one + one + one
        p, q = np.float64(chain[a, j, c]), np.float64(chain[a, j, d])
        r, s = np.float64(chain[a, j, e]), np.float64(chain[a, j, f])
        for t in range(low, high):
            best = rights[a, j, t]
            best = p + spans[c, t] if p + spans[c, t] > best else best
            best = q + spans[d, t] if q + spans[d, t] > best else best
            best = r + spans[e, t] if r + spans[e, t] > best else best
            rights[a, j, t] = s + spans[f, t] if s + spans[f, t] > best else best
        c = f + one
    while c < end:
        p = np.float64(chain[a, j, c])
        for t in range(low, high):
            rights[a, j, t] = p + spans[c, t] if p + spans[c, t] > rights[a, j, t] else rights[a, j, t]
        c = c + one


@jit
def raise_rights_pair(rights, chain, a, j, spans, stop, first, last):
    """`raise_rights` for left children j and j + 1 at once, two right children at a time."""
    low, high, one, k = np.uint64(first), np.uint64(last), np.uint64(1), j + 1
    c, end = np.uint64(a + 1), np.uint64(stop)
    while c < end:
        d = c + one if c + one < end else c
        p, q = np.float64(chain[a, j, c]), np.float64(chain[a, j, d])
        r, s = np.float64(chain[a, k, c]), np.float64(chain[a, k, d])
        for t in range(low, high):
            best, other = rights[a, j, t], rights[a, k, t]
            best = p + spans[c, t] if p + spans[c, t] > best else best
            other = r + spans[c, t] if r + spans[c, t] > other else other
            rights[a, j, t] = q + spans[d, t] if q + spans[d, t] > best else best
            rights[a, k, t] = s + spans[d, t] if s + spans[d, t] > other else other
        c = d + one


@jit
def left_term(value, tokens, states, rights, a, q, s, own, length):
    """Main-chain node a, symbol `own`, beginning at s, its left child in prefix state q, and the rest."""
    rest = s + states[q, 1] + 1
    if rest >= length:
        return NEG_INF
    return value[q, s] + tokens[own, rest - 1] + rights[a, states[q, 0], rest]


@jit
def best_left(value, tokens, states, rights, a, s, length, block):
    """Best S[a, s] and the prefix state that gives it."""
    best, best_state = NEG_INF, -1
    for q in range(states.shape[0] if a > 0 else 1):
        term = left_term(value, tokens, states, rights, a, q, s, 1 + a * block, length)
        if term > best:
            best, best_state = term, q
    return best, best_state


@jit
def fill_tables(chain, prefix, tokens, states, splits, length, stop, value, spans, rights, any_start):
    """Fill S and G under max; with `any_start` for a root anywhere, otherwise for the root at 0."""
    block, end = chain.shape[1], length - 1
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    spans[stop - 1, end] = tokens[1 + (stop - 1) * block, end]
    for a in range(stop - 2, -1, -1):
        first, last = rest_range(a, length, stop, block, any_start)
        if first < last:
            lefts = block if a > 0 else 1
            for j in range(0, lefts, 2):
                if j + 1 < lefts:
                    raise_rights_pair(rights, chain, a, j, spans, stop, first, last)
                else:
                    raise_rights(rights, chain, a, j, spans, stop, first, last)
        if a > 0:
            fill_prefix_values(value, prefix, tokens, states, splits, a, length, block, True)
        first, last = start_range(a, length, stop, block, any_start)
        for s in range(first, last):
            spans[a, s], _ = best_left(value, tokens, states, rights, a, s, length, block)


@jit
def trace(chain, prefix, tokens, states, splits, start, length, stop, value, spans, rights, position):
    """Follow the best choices from the root at `start`; enter into `position[symbol]` what it emits."""
    block = chain.shape[1]
    a, s = 0, start
    while a < stop - 1:
        if a > 0:
            fill_prefix_values(value, prefix, tokens, states, splits, a, length, block, True)
        _, q = best_left(value, tokens, states, rights, a, s, length, block)
        left, rest = states[q, 0], s + states[q, 1] + 1
        position[1 + a * block] = rest - 1 - start
        trace_prefix(prefix, tokens, states, splits, a, block, q, s, start, value, position)
        following = a + 1
        while chain[a, left, following] + spans[following, rest] != rights[a, left, rest]:
            following += 1
        a, s = following, rest
    position[1 + a * block] = s - start


@jit
def trace_prefix(prefix, tokens, states, splits, a, block, top_state, s, start, value, position):
    """Enter the positions of one prefix tree."""
    before = 1 + (a - 1) * block
    pending = np.zeros((states.shape[0] + 2, 2), dtype=np.int64)
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
            if splits[p, 0] == q:
                _, rule, left, right, offset, wide = splits[p]
                weight = np.float64(prefix[a, rule])
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
def best_batch(
    first, last, chains, prefixes, token_weights, chain_lengths, lengths, states, splits, score, position
):
    """Best derivation of each target of sentences `first … last - 1`."""
    nodes, block, width = chains.shape[1], chains.shape[2], token_weights.shape[2]
    value = np.zeros((states.shape[0], width))
    spans, rights = np.zeros((nodes, width)), np.zeros((nodes, block, width))
    for b in range(first, last):
        chain, prefix, tokens = chains[b], prefixes[b], token_weights[b]
        stop, length = chain_lengths[b], lengths[b]
        position[b] = -1
        score[b] = NEG_INF
        if length >= 2:
            fill_tables(chain, prefix, tokens, states, splits, length, stop, value, spans, rights, False)
            score[b] = spans[0, 0]
            if spans[0, 0] > NEG_INF:
                trace(
                    chain, prefix, tokens, states, splits, 0, length, stop, value, spans, rights, position[b]
                )


@jit
def tables_batch(
    first, last, chains, prefixes, token_weights, chain_lengths, lengths, states, splits, spans, rights
):
    """Tables of the best derivations of all lengths of sentences `first … last - 1`."""
    value = np.zeros((states.shape[0], token_weights.shape[2]))
    for b in range(first, last):
        chain, prefix, tokens = chains[b], prefixes[b], token_weights[b]
        stop = chain_lengths[b]
        fill_tables(chain, prefix, tokens, states, splits, lengths[b], stop, value, spans[b], rights[b], True)


@jit
def trace_batch(
    first,
    last,
    chains,
    prefixes,
    token_weights,
    chain_lengths,
    lengths,
    states,
    splits,
    spans,
    rights,
    wanted,
    position,
):
    """Positions of the best derivation of the wanted length of each sentence; none where it is impossible."""
    width = token_weights.shape[2]
    value = np.zeros((states.shape[0], width))
    for b in range(first, last):
        chain, prefix, tokens = chains[b], prefixes[b], token_weights[b]
        position[b] = -1
        start, stop = width - wanted[b], chain_lengths[b]
        if 0 <= start < width and spans[b, 0, start] > NEG_INF:
            trace(
                chain,
                prefix,
                tokens,
                states,
                splits,
                start,
                width,
                stop,
                value,
                spans[b],
                rights[b],
                position[b],
            )
