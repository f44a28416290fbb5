"""log P by an inside pass.

Nearly all of the work are sums over right children, `G[a, j, t] = log Σ_c exp(rule[a, j, c] + S[c, t])`. They
run as products in probability space: rules scaled by their row's maximum, spans by the maximum of the spans,
at that position, that the row can reach. Where such a product comes out too small to be trusted, that one
entry is summed in log space instead, so that no result depends on the scaling: with a single maximum for all,
a true log P of -200 can come out as -85.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import (
    NEG_INF,
    fill_prefix_values,
    jit,
    jit_sum,
    pick,
    rest_range,
    start_range,
)

# A span that exceeds the scale by more than this many nats becomes the new scale.
RESCALE = 20.0
# Below this, exp adds nothing to a sum that holds a 1.
EXP_OF_ZERO = -40.0


class Limits(NamedTuple):
    """Scaled rules and spans below exp(cutoff) count as 0; sums of products above `trust` stay exact."""

    cutoff: float
    trust: float


class Scratch(NamedTuple):
    """Working space for one sentence at a time; what comes before `scale` has the scores' dtype."""

    rules: Any  # [2, C]: exp(rule - maximum) of one or two left children
    spans: Any  # [N, C]: exp(S - scale)
    totals: Any  # [2, N]
    scale: Any  # [N]
    value: Any  # [Q, N]: prefix values of one main-chain node
    terms: Any  # [Q, N]


@jit
def new_scratch(batch):
    """Allocate working space, zeroed."""
    nodes, width, kinds, dtype = (
        batch.chain.shape[1],
        batch.tokens.shape[2],
        len(batch.states),
        batch.chain.dtype,
    )
    return Scratch(
        np.zeros((2, nodes), dtype=dtype),
        np.zeros((width, nodes), dtype=dtype),
        np.zeros((2, width), dtype=dtype),
        np.zeros(width),
        np.zeros((kinds, width)),
        np.zeros((kinds, width)),
    )


@jit
def scale_row(row, start, stop, cutoff, scaled):
    """`scaled = exp(row - maximum)`, 0 below the cutoff; return the maximum, NaN if anything is."""
    largest = NEG_INF
    for c in range(start, stop):
        if row[c] != row[c]:
            return math.nan
        largest = max(largest, row[c])
    if largest == NEG_INF:
        scaled[start:stop] = 0
        return largest
    for c in range(start, stop):
        below = row[c] - row.dtype.type(largest)
        scaled[c] = math.exp(below) if below > cutoff else 0
    return largest


@jit_sum
def add_up(scratch, start, stop, first, last, pair):
    """`totals[i, t] = Σ_c rules[i, c] · spans[t, c]` for one left child or for a pair of them."""
    one, two = scratch.rules[0, start:stop], scratch.rules[1, start:stop]
    for t in range(first, last):
        span = scratch.spans[t, start:stop]
        total, other_total = span.dtype.type(0), span.dtype.type(0)
        if pair:  # both at once: reading the spans is most of the work
            for c in range(span.shape[0]):
                total += one[c] * span[c]
                other_total += two[c] * span[c]
        else:
            for c in range(span.shape[0]):
                total += one[c] * span[c]
        scratch.totals[0, t], scratch.totals[1, t] = total, other_total


@jit
def log_dot(row, spans, t, start, stop):
    """log Σ_c exp(row[c] + spans[c, t]), exactly; NaN if anything is."""
    largest = NEG_INF
    for c in range(start, stop):
        term = row[c] + spans[c, t]
        if term != term:
            return term
        largest = max(largest, term)
    if largest == NEG_INF:
        return largest
    total = 0.0
    for c in range(start, stop):
        total += math.exp(row[c] + spans[c, t] - largest)
    return largest + math.log(total)


@jit
def sum_over_right(sentence, a, spans, rights, scratch, limits):
    """G[a, j, t] for all left children j and all t that matter."""
    chain, stop = sentence.chain[a], sentence.stop
    first, last = rest_range(sentence, a, False)
    lefts = chain.shape[0] if a > 0 else 1
    for j in range(0, lefts, 2):
        pair = min(2, lefts - j)
        largest = scale_row(chain[j], a + 1, stop, limits.cutoff, scratch.rules[0])
        other = (
            scale_row(chain[j + 1], a + 1, stop, limits.cutoff, scratch.rules[1]) if pair == 2 else NEG_INF
        )
        add_up(scratch, a + 1, stop, first, last, pair == 2)
        for i in range(pair):
            maximum, totals = (other if i else largest), scratch.totals[i]
            if maximum == NEG_INF:
                continue
            for t in range(first, last):
                if totals[t] > limits.trust:
                    rights[a, j + i, t] = math.log(totals[t]) + scratch.scale[t] + maximum
                elif scratch.scale[t] != NEG_INF:
                    rights[a, j + i, t] = log_dot(chain[j + i], spans, t, a + 1, stop)


@jit
def fill_terms(terms, value, sentence, a, rights, first, last):
    """`terms[q, s]`: main-chain node a beginning at s, its left child in prefix state q, and the rest."""
    own, states = sentence.tokens[1 + a * sentence.chain.shape[1]], sentence.states
    for q in range(states.shape[0] if a > 0 else 1):
        wide = states[q, 1]
        stop = max(first, min(last, sentence.length - wide - 1))
        out, left = terms[q, first:stop], value[q, first:stop]
        token = own[first + wide : stop + wide]
        right = rights[a, states[q, 0], first + wide + 1 : stop + wide + 1]
        for s in range(out.shape[0]):
            out[s] = left[s] + token[s] + right[s]
        terms[q, stop:last] = NEG_INF


@jit
def sum_over_left(terms, spans, first, last, lefts):
    """S[a, s] for `first ≤ s < last`: sum over left children and how many tokens they derive."""
    out = spans[first:last]
    out[:] = terms[0, first:last]
    if lefts == 1:
        return
    for q in range(1, lefts):
        term = terms[q, first:last]
        for s in range(out.shape[0]):
            out[s] = term[s] if not term[s] <= out[s] else out[s]
    for s in range(first, last):
        largest = spans[s]
        if largest == NEG_INF:
            continue
        total = 0.0
        for q in range(lefts):
            below = terms[q, s] - largest
            if below > EXP_OF_ZERO:
                total += math.exp(below) if below < 0.0 else 1.0
            elif below != below:
                total = below
        spans[s] = largest + math.log(total)


@jit
def enter_spans(scratch, spans, a, first, last, stop, cutoff):
    """Scale the spans of main-chain node a, raising the scale of later nodes first where it must be."""
    scale = scratch.scale
    for t in range(first, last):
        if spans[t] > scale[t] + RESCALE or spans[t] != spans[t]:
            factor = math.exp(scale[t] - spans[t])
            scratch.spans[t, a + 1 : stop] *= scratch.spans.dtype.type(factor)
            scale[t] = spans[t]
    for t in range(first, last):
        below = spans[t] - scale[t]
        scratch.spans[t, a] = 0 if below <= cutoff or spans[t] == NEG_INF else math.exp(below)


@jit
def inside_sentence(sentence, spans, rights, scratch, limits):
    """Fill S = `spans[a, s]` and G = `rights[a, j, t]`; return log P."""
    block, stop, length = sentence.chain.shape[1], sentence.stop, sentence.length
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    if not 2 <= length <= (stop - 2) * block + 2:
        return NEG_INF
    scratch.spans[:] = 0
    scratch.scale[:] = NEG_INF
    spans[stop - 1, length - 1] = sentence.tokens[1 + (stop - 1) * block, length - 1]
    enter_spans(scratch, spans[stop - 1], stop - 1, length - 1, length, stop, limits.cutoff)
    for a in range(stop - 2, -1, -1):
        sum_over_right(sentence, a, spans, rights, scratch, limits)
        if a > 0:
            fill_prefix_values(scratch.value, sentence, a, False)
        first, last = start_range(sentence, a, False)
        fill_terms(scratch.terms, scratch.value, sentence, a, rights, first, last)
        sum_over_left(scratch.terms, spans[a], first, last, len(sentence.states) if a > 0 else 1)
        enter_spans(scratch, spans[a], a, first, last, stop, limits.cutoff)
    return spans[0, 0]


@jit
def inside_batch(first, last, batch, limits, spans, rights, log_z):
    """Run the inside pass on sentences `first … last - 1`."""
    scratch = new_scratch(batch)
    for b in range(first, last):
        log_z[b] = inside_sentence(pick(batch, b), spans[b], rights[b], scratch, limits)
