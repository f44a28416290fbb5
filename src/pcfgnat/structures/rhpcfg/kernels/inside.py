"""log P by an inside pass.

Nearly all of the work are sums over right children, `G[a, j, t] = log Σ_c exp(rule[a, j, c] + S[c, t])`. They
run as products in probability space: rules scaled by their row's maximum, spans by the maximum of the spans,
at that position, that the row can reach. Where such a product comes out too small to be trusted, that one
entry is summed in log space instead, so that no result depends on the scaling: with a single maximum for all,
a true log P of -200 can come out as -85.
"""

import math

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import (
    NEG_INF,
    fill_prefix_values,
    jit,
    jit_sum,
    rest_range,
    start_range,
)
from pcfgnat.structures.rhpcfg.kernels.exponential import rule_maximum, scale_rules

# A span that exceeds the scale by more than this many nats becomes the new scale.
RESCALE = 20.0
# Below this, exp adds nothing to a sum that holds a 1.
EXP_OF_ZERO = -40.0


@jit_sum
def add_up(totals, rules, scaled_spans, start, stop, first, last, pair):
    """`totals[i, t] = Σ_c rules[i, c] · scaled_spans[t, c]` for one left child or for a pair of them."""
    low, high = np.uint64(start), np.uint64(stop)
    for t in range(np.uint64(first), np.uint64(last)):
        total, other_total = totals.dtype.type(0), totals.dtype.type(0)
        if pair:  # both at once: reading the spans is most of the work
            for c in range(low, high):
                total += rules[0, c] * scaled_spans[t, c]
                other_total += rules[1, c] * scaled_spans[t, c]
        else:
            for c in range(low, high):
                total += rules[0, c] * scaled_spans[t, c]
        totals[0, t], totals[1, t] = total, other_total


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
def sum_over_right(
    chain, a, stop, first, last, spans, rights, maxima, rules, scaled_spans, scale, totals, cutoff, trust
):
    """G[a, j, t] for all left children j and for `first ≤ t < last`."""
    lefts = chain.shape[1] if a > 0 else 1
    for j in range(0, lefts, 2):
        pair = min(2, lefts - j)
        for i in range(pair):
            maxima[a, j + i] = rule_maximum(chain, a, j + i, stop)
            scale_rules(chain, a, j + i, stop, maxima[a, j + i], cutoff, rules, i)
        add_up(totals, rules, scaled_spans, a + 1, stop, first, last, pair == 2)
        for i in range(pair):
            largest = maxima[a, j + i]
            if largest == NEG_INF:
                continue
            for t in range(first, last):
                if totals[i, t] > trust:
                    rights[a, j + i, t] = math.log(totals[i, t]) + scale[t] + largest
                elif scale[t] != NEG_INF:
                    rights[a, j + i, t] = log_sum(chain, a, j + i, spans, t, stop)


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
def sum_over_left(terms, lefts, a, first, last, spans, shares):
    """S[a, s] for `first ≤ s < last`: sum over left children and how many tokens they derive.

    `shares[a, q, s]` keeps what prefix state q contributes: the outside pass needs it.
    """
    for s in range(first, last):
        largest = terms[0, s]
        for q in range(1, lefts):
            largest = terms[q, s] if not terms[q, s] <= largest else largest
        if lefts == 1 or largest == NEG_INF:
            spans[a, s], shares[a, 0, s] = largest, 1
            continue
        total = 0.0
        for q in range(lefts):
            below = terms[q, s] - largest
            terms[q, s] = 1.0 if below == 0.0 else 0.0 if below < EXP_OF_ZERO else math.exp(below)
            total += terms[q, s]
        spans[a, s] = largest + math.log(total)
        for q in range(lefts):
            shares[a, q, s] = terms[q, s] / total


@jit
def enter_spans(scaled_spans, scale, spans, a, first, last, stop, cutoff):
    """`scaled_spans[t, a] = exp(spans[a, t] - scale[t])`, raising the scale of later nodes where needed."""
    for t in range(first, last):
        span = spans[a, t]
        if span > scale[t] + RESCALE or span != span:
            factor = scaled_spans.dtype.type(math.exp(scale[t] - span))
            for c in range(a + 1, stop):
                scaled_spans[t, c] *= factor
            scale[t] = span
        below = span - scale[t]
        scaled_spans[t, a] = 0 if below <= cutoff or span == NEG_INF else math.exp(below)


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
    rules = np.zeros((2, nodes), dtype=chains.dtype)
    scaled_spans = np.zeros((width, nodes), dtype=chains.dtype)
    totals = np.zeros((2, width), dtype=chains.dtype)
    scale = np.zeros(width)
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
            sum_over_left(terms, len(states) if a > 0 else 1, a, first, last, spans, all_shares[b])
            enter_spans(scaled_spans, scale, spans, a, first, last, stop, cutoff)
        log_z[b] = spans[0, 0]
