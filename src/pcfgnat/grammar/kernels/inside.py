"""log P by an inside pass.

Nearly all of the work are sums over right children, `G[a, j, t] = log Σ_c exp(rule[a, j, c] + S[c, t])`. They
run as products in probability space: rules scaled by their row's maximum, spans by the maximum of the spans,
at that position, that the row can reach. Where such a product comes out too small to be trusted, that one
entry is summed in log space instead, so that no result depends on the scaling: with a single maximum for all,
a true log P of -200 can come out as -85.
"""

import math

import numpy as np

from pcfgnat.grammar.kernels.common import (
    NEG_INF,
    fill_prefix_values,
    jit,
    jit_sum,
    rest_range,
    start_range,
)
from pcfgnat.grammar.kernels.exponential import (
    VECTOR,
    exp_for,
    log_for,
    rule_maximum,
    scale_rules,
)

# A span that exceeds the scale by more than this many nats becomes the new scale.
RESCALE = 20.0
# Below this, exp adds nothing to a sum that holds a 1.
EXP_OF_ZERO = -40.0


@jit_sum
def add_up(totals, weights, j, pair, table, start, stop, first, last):
    """`totals[j, t] = Σ_c weights[j, c] · table[c, t]`, and the same for j + 1 if `pair`.

    Four rows at a time for two sums: reading and writing rows is most of the work.
    """
    low, high, one, k = np.uint64(first), np.uint64(last), np.uint64(1), j + 1
    for t in range(low, high):
        totals[j, t] = 0
    if pair:
        for t in range(low, high):
            totals[k, t] = 0
    c, end = np.uint64(start), np.uint64(stop)
    while c + one + one + one < end:
        d, e, f = c + one, c + one + one, c + one + one + one
        p, q, r, s = weights[j, c], weights[j, d], weights[j, e], weights[j, f]
        if pair:
            other_p, other_q, other_r, other_s = weights[k, c], weights[k, d], weights[k, e], weights[k, f]
            for t in range(low, high):
                w, x, y, z = table[c, t], table[d, t], table[e, t], table[f, t]
                totals[j, t] += p * w + q * x + r * y + s * z
                totals[k, t] += other_p * w + other_q * x + other_r * y + other_s * z
        else:
            for t in range(low, high):
                totals[j, t] += p * table[c, t] + q * table[d, t] + r * table[e, t] + s * table[f, t]
        c = f + one
    while c < end:
        p = weights[j, c]
        for t in range(low, high):
            totals[j, t] += p * table[c, t]
        if pair:
            q = weights[k, c]
            for t in range(low, high):
                totals[k, t] += q * table[c, t]
        c = c + one


@jit
def log_sum(chain, a, j, spans, t, stop):
    """log Σ_c exp(chain[a, j, c] + spans[c, t]), exactly; NaN if anything is."""
    largest = NEG_INF
    for c in range(a + 1, stop):
        term = chain[a, j, c] + spans[c, t]
        if term != term:
            return term
        largest = max(largest, term)
    if largest == NEG_INF:
        return largest
    total = 0.0
    for c in range(a + 1, stop):
        total += math.exp(chain[a, j, c] + spans[c, t] - largest)
    return largest + math.log(total)


@jit
def enter_logs(rights, totals, a, j, first, last, scale, largest, trust):
    """`rights[a, j, t] = log G[a, j, t]` from scaled sums; returns how many of these cannot be trusted."""
    doubtful, single = 0, totals.itemsize == 4
    for t in range(np.uint64(first), np.uint64(last)):
        rights[a, j, t] = log_for(totals[j, t], single) + (scale[t] + largest)
        doubtful += not totals[j, t] > trust
    return doubtful


@jit
def sum_over_right(
    chain, a, stop, first, last, spans, rights, maxima, rules, scaled_spans, scale, totals, cutoff, trust
):
    """G[a, j, t] for all left children j and for `first ≤ t < last`."""
    lefts = chain.shape[1] if a > 0 else 1
    whole_first, whole_last = first // VECTOR * VECTOR, (last + VECTOR - 1) // VECTOR * VECTOR
    for j in range(lefts):
        maxima[a, j] = rule_maximum(chain, a, j, stop)
        scale_rules(chain, a, j, stop, maxima[a, j], cutoff, rules)
    for j in range(0, lefts, 2):
        add_up(totals, rules, j, j + 1 < lefts, scaled_spans, a + 1, stop, whole_first, whole_last)
    for j in range(lefts):
        doubtful = enter_logs(rights, totals, a, j, first, last, scale, np.float64(maxima[a, j]), trust)
        if doubtful > 0:
            for t in range(first, last):
                if not totals[j, t] > trust:
                    possible = maxima[a, j] != NEG_INF and scale[t] != NEG_INF
                    rights[a, j, t] = log_sum(chain, a, j, spans, t, stop) if possible else NEG_INF


@jit
def fill_terms(terms, value, tokens, states, rights, a, own, length, first, last):
    """`terms[q, s]`: node a, symbol `own`, beginning at s, its left child in prefix state q, and the rest."""
    one = np.uint64(1)
    for q in range(states.shape[0] if a > 0 else 1):
        left, wide = states[q, 0], np.uint64(states[q, 1])
        inside = max(first, min(last, length - states[q, 1] - 1))
        for s in range(np.uint64(first), np.uint64(inside)):
            terms[q, s] = value[q, s] + tokens[own, s + wide] + rights[a, left, s + wide + one]
        for s in range(inside, last):
            terms[q, s] = NEG_INF


@jit
def sum_over_left(terms, lefts, a, first, last, spans, shares, largest, total):
    """S[a, s] for `first ≤ s < last`: sum over left children and how many tokens they derive.

    `shares[a, q, s]` keeps what prefix state q contributes: the outside pass needs it.
    """
    low, high, single = np.uint64(first), np.uint64(last), shares.itemsize == 4
    if lefts == 1:
        for s in range(low, high):
            spans[a, s], shares[a, 0, s] = terms[0, s], 1
        return
    for s in range(low, high):
        largest[s], total[s] = terms[0, s], 0.0
    for q in range(1, lefts):
        for s in range(low, high):  # the second disjunct lets NaN through
            raised = terms[q, s] > largest[s] or terms[q, s] != terms[q, s]
            largest[s] = terms[q, s] if raised else largest[s]
    for q in range(lefts):
        for s in range(low, high):
            below = terms[q, s] - largest[s]
            weight = exp_for(below if below > EXP_OF_ZERO else EXP_OF_ZERO, single)
            terms[q, s] = weight if below > EXP_OF_ZERO else 0.0
            total[s] += terms[q, s]
    for s in range(low, high):  # where nothing is possible the total is 0, and its log any number: -inf stays
        spans[a, s] = largest[s] + log_for(total[s], single)
        total[s] = 1.0 / max(total[s], 1.0)
    for q in range(lefts):
        for s in range(low, high):
            shares[a, q, s] = terms[q, s] * total[s]


@jit
def raise_scale(scaled_spans, scale, spans, a, first, last, stop):
    """Make S[a, t] the scale wherever it exceeds it by far: what was scaled before is multiplied down."""
    for t in range(first, last):
        span = spans[a, t]
        if span > scale[t] + RESCALE or span != span:
            factor = scaled_spans.dtype.type(math.exp(scale[t] - span))
            for c in range(a + 1, stop):
                scaled_spans[c, t] *= factor
            scale[t] = span


@jit
def enter_spans(scaled_spans, scale, spans, a, first, last, stop, cutoff):
    """`scaled_spans[a, t] = exp(spans[a, t] - scale[t])`, raising the scale of later nodes where needed."""
    low, high = np.uint64(first), np.uint64(last)
    too_large = 0
    for t in range(low, high):
        too_large += not spans[a, t] <= scale[t] + RESCALE
    if too_large > 0:
        raise_scale(scaled_spans, scale, spans, a, first, last, stop)
    single = scaled_spans.itemsize == 4
    for t in range(low, high):  # where scale and span are both -inf, their difference is no number: 0
        below = spans[a, t] - scale[t]
        scaled = exp_for(below if below > cutoff else cutoff, single)
        scaled_spans[a, t] = scaled if below > cutoff else 0.0


@jit
def inside_batch(
    first_sentence,
    last_sentence,
    chains,
    prefixes,
    token_weights,
    chain_lengths,
    lengths,
    states,
    splits,
    cutoff,
    trust,
    all_spans,
    all_rights,
    all_shares,
    all_maxima,
    log_z,
):
    """Fill S `[B, C, N]`, G `[B, C, d, N]` and log P of a range of sentences.

    Shares of left children `[B, C, Q, N]` and the rules' maxima `[B, C, d]` are kept for the outside pass.
    """
    nodes, block, width = chains.shape[1], chains.shape[2], token_weights.shape[2]
    rules = np.zeros((block, nodes), dtype=chains.dtype)
    padded_width = (width + VECTOR - 1) // VECTOR * VECTOR
    scaled_spans = np.zeros((nodes, padded_width), dtype=chains.dtype)
    totals = np.zeros((block, padded_width), dtype=chains.dtype)
    scale, largest, total = np.zeros(width), np.zeros(width), np.zeros(width)
    value, terms = np.zeros((states.shape[0], width)), np.zeros((states.shape[0], width))
    for b in range(first_sentence, last_sentence):
        chain, prefix, tokens, spans, rights = (
            chains[b],
            prefixes[b],
            token_weights[b],
            all_spans[b],
            all_rights[b],
        )
        stop, length = chain_lengths[b], lengths[b]
        spans[:] = NEG_INF
        rights[:] = NEG_INF
        log_z[b] = NEG_INF
        if not 2 <= length <= (stop - 2) * block + 2:
            continue
        scaled_spans[:] = 0
        scale[:] = NEG_INF
        spans[stop - 1, length - 1] = tokens[1 + (stop - 1) * block, length - 1]
        enter_spans(scaled_spans, scale, spans, stop - 1, length - 1, length, stop, cutoff)
        for a in range(stop - 2, -1, -1):
            first, last = rest_range(a, length, stop, block, False)
            sum_over_right(
                chain, a, stop, first, last, spans, rights, all_maxima[b], rules, scaled_spans, scale, totals,
                cutoff, trust,
            )  # fmt: skip
            if a > 0:
                fill_prefix_values(value, prefix, tokens, states, splits, a, length, block, False)
            first, last = start_range(a, length, stop, block, False)
            fill_terms(terms, value, tokens, states, rights, a, 1 + a * block, length, first, last)
            lefts = states.shape[0] if a > 0 else 1
            sum_over_left(terms, lefts, a, first, last, spans, all_shares[b], largest, total)
            enter_spans(scaled_spans, scale, spans, a, first, last, stop, cutoff)
        log_z[b] = spans[0, 0]
