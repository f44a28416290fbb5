"""log P and its gradients, the posteriors, by an inside and an outside pass.

Nearly all of the work are sums over right children, `G[a, j, t] = log Σ_c exp(rule[a, j, c] + S[c, t])`. They run as
products in probability space: rules scaled by their row's maximum, spans by the maximum of the spans, at that
position, that the row can reach. Where such a product comes out too small to be trusted, that one entry is summed in
log space instead, so that no result depends on the scaling: with a single maximum for all, a true log P of -200
can come out as -85.
"""

import math

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import (
    NEG_INF,
    derivable,
    fill_prefix_values,
    jit,
    jit_sum,
    rest_range,
    start_range,
)

# A span that exceeds the scale by more than this many nats becomes the new scale.
RESCALE = 20.0
# Below this, exp adds nothing to a sum that holds a 1.
EXP_OF_ZERO = -40.0
# Posterior mass below this leaves no trace in a gradient.
NEGLIGIBLE = 1e-30


@jit
def scale_row(row, start, stop, cutoff, scaled):
    """`scaled = exp(row - maximum)`, 0 where that is below the cutoff; return the maximum, NaN if anything is."""
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
def add_up(totals, rules, scaled_spans, start, stop, first, last, pair):
    """`totals[i, t] = Σ_c rules[i, c] · scaled_spans[t, c]` for one or two left children i."""
    one, two = rules[0, start:stop], rules[1, start:stop]
    for t in range(first, last):
        span = scaled_spans[t, start:stop]
        total, other_total = span.dtype.type(0), span.dtype.type(0)
        if pair:  # both at once: reading the spans is most of the work
            for c in range(span.shape[0]):
                total += one[c] * span[c]
                other_total += two[c] * span[c]
        else:
            for c in range(span.shape[0]):
                total += one[c] * span[c]
        totals[0, t], totals[1, t] = total, other_total


@jit_sum
def share_out(shares, rules, scaled_spans, received, sums, start, stop, first, last, pair):
    """Give each right child its share of the mass at each t, and sum up what goes through each rule.

    `received[t, c] += Σ_i rules[i, c] · shares[i, t]` and `sums[i, c] = Σ_t shares[i, t] · scaled_spans[t, c]`.
    """
    one, two, sum_one, sum_two = rules[0, start:stop], rules[1, start:stop], sums[0, start:stop], sums[1, start:stop]
    sum_one[:] = 0
    sum_two[:] = 0
    for t in range(first, last):
        span, into, share, other_share = scaled_spans[t, start:stop], received[t, start:stop], shares[0, t], shares[1, t]
        if pair:
            for c in range(span.shape[0]):
                sum_one[c] += share * span[c]
                sum_two[c] += other_share * span[c]
                into[c] += share * one[c] + other_share * two[c]
        else:
            for c in range(span.shape[0]):
                sum_one[c] += share * span[c]
                into[c] += share * one[c]


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
def enter_spans(scaled_spans, scale, spans, a, first, last, stop, cutoff):
    """Set `scaled_spans[t, a] = exp(spans[t] - scale[t])`, first raising the scale of later nodes where it must."""
    for t in range(first, last):
        if spans[t] > scale[t] + RESCALE or spans[t] != spans[t]:
            factor = math.exp(scale[t] - spans[t])
            scaled_spans[t, a + 1 : stop] *= scaled_spans.dtype.type(factor)
            scale[t] = spans[t]
    for t in range(first, last):
        below = spans[t] - scale[t]
        scaled_spans[t, a] = 0 if below <= cutoff or spans[t] == NEG_INF else math.exp(below)


@jit
def fill_terms(terms, value, own_tokens, states, rights, length, first, last, lefts):
    """`terms[q, s]`: main-chain node beginning at s, its left child in prefix state q, the rest behind it."""
    for q in range(lefts):
        wide = states[q, 1]
        stop = max(first, min(last, length - wide - 1))
        out, left_value = terms[q, first:stop], value[q, first:stop]
        token = own_tokens[first + wide : stop + wide]
        right = rights[states[q, 0], first + wide + 1 : stop + wide + 1]
        for s in range(out.shape[0]):
            out[s] = left_value[s] + token[s] + right[s]
        terms[q, stop:last] = NEG_INF


@jit
def sum_over_left(terms, spans, first, last, lefts):
    """S[a, s] for `first ≤ s < last`: sum over left children and how many tokens they derive."""
    out = spans[first:last]
    out[:] = terms[0, first:last]
    for q in range(1, lefts):
        term = terms[q, first:last]
        for s in range(out.shape[0]):
            out[s] = term[s] if not term[s] <= out[s] else out[s]
    if lefts == 1:
        return
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
def sum_over_right(chain, spans, rights, a, stop, first, last, scratch, limits):
    """G[a, j, t] for all j and for `first ≤ t < last`."""
    rows, scaled_spans, scale, totals, _, _, _ = scratch
    cutoff, trust = limits
    lefts = chain.shape[0] if a > 0 else 1
    for j in range(0, lefts, 2):
        pair = min(2, lefts - j)
        largest = scale_row(chain[j], a + 1, stop, cutoff, rows[0])
        next_largest = scale_row(chain[j + 1], a + 1, stop, cutoff, rows[1]) if pair == 2 else NEG_INF
        add_up(totals, rows, scaled_spans, a + 1, stop, first, last, pair == 2)
        for i in range(pair):
            maximum = next_largest if i else largest
            if maximum == NEG_INF:
                continue
            for t in range(first, last):
                if totals[i, t] > trust:
                    rights[j + i, t] = math.log(totals[i, t]) + scale[t] + maximum
                elif scale[t] != NEG_INF:
                    rights[j + i, t] = log_dot(chain[j + i], spans, t, a + 1, stop)


@jit
def inside_sentence(chain, prefix, tokens, states, splits, length, chain_length, spans, rights, scratch, limits):
    """Fill S = `spans[a, s]` and G = `rights[a, j, t]`; return log P."""
    _, scaled_spans, scale, _, value, terms, _ = scratch
    cutoff = limits[0]
    block, stop = chain.shape[1], chain_length
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    if not derivable(length, chain_length, block):
        return NEG_INF
    scaled_spans[:] = 0
    scale[:] = NEG_INF
    spans[stop - 1, length - 1] = tokens[1 + (stop - 1) * block, length - 1]
    enter_spans(scaled_spans, scale, spans[stop - 1], stop - 1, length - 1, length, stop, cutoff)
    for a in range(stop - 2, -1, -1):
        first, last = rest_range(a, length, chain_length, block, False)
        sum_over_right(chain[a], spans, rights[a], a, stop, first, last, scratch, limits)
        if a > 0:
            fill_prefix_values(value, prefix[a], tokens, states, splits, length, 1 + (a - 1) * block, False)
        lefts = states.shape[0] if a > 0 else 1
        first, last = start_range(a, length, chain_length, block, False)
        fill_terms(terms, value, tokens[1 + a * block], states, rights[a], length, first, last, lefts)
        sum_over_left(terms, spans[a], first, last, lefts)
        enter_spans(scaled_spans, scale, spans[a], a, first, last, stop, cutoff)
    return spans[0, 0]


@jit
def rebase(spans, scaled_spans, received, scale, t, start, stop, cutoff):
    """Scale position t anew, by the largest span from node `start` on; masses keep their value."""
    largest = NEG_INF
    for c in range(start, stop):
        largest = max(largest, spans[c, t])
    factor = math.exp(largest - scale[t])
    for c in range(start, stop):
        below = spans[c, t] - largest
        scaled_spans[t, c] = math.exp(below) if below > cutoff else 0
        received[t, c] *= factor
    scale[t] = largest


@jit
def prepare_spans(spans, scaled_spans, scale, length, stop, cutoff):
    """Scale all spans by the largest at their position."""
    for t in range(length):
        scale[t] = NEG_INF
        for c in range(1, stop):
            scale[t] = max(scale[t], spans[c, t])
    for c in range(1, stop):
        for t in range(length):
            below = spans[c, t] - scale[t]
            scaled_spans[t, c] = math.exp(below) if below > cutoff else 0


@jit
def share_over_right(
    chain, spans, rights, right_mass, received, exact_mass, a, stop, first, last, scratch, limits, scale_by, grad_chain
):
    """Hand the mass of G[a, j, t] on to the right children and to the gradient of the rules."""
    rows, scaled_spans, scale, shares, _, _, sums = scratch
    cutoff, trust = limits
    log_trust = math.log(trust)
    one = rows.dtype.type(scale_by)
    lefts = chain.shape[0] if a > 0 else 1
    for j in range(0, lefts, 2):
        pair = min(2, lefts - j)
        shares[:, first:last] = 0
        low, high = last, first  # the positions that have any mass
        for i in range(pair):
            largest = scale_row(chain[j + i], a + 1, stop, cutoff, rows[i])
            for t in range(first, last):
                amount = right_mass[j + i, t]
                if amount < NEGLIGIBLE:
                    continue
                log_product = rights[j + i, t] - scale[t] - largest
                if log_product < log_trust and i == 0:
                    rebase(spans, scaled_spans, received, scale, t, a + 1, stop, cutoff)
                    log_product = rights[j + i, t] - scale[t] - largest
                if log_product < log_trust:
                    for c in range(a + 1, stop):
                        part = amount * math.exp(chain[j + i, c] + spans[c, t] - rights[j + i, t])
                        exact_mass[t, c] += part
                        grad_chain[j + i, c] += scale_by * part
                else:
                    shares[i, t] = amount * math.exp(-log_product)
                    low, high = min(low, t), max(high, t + 1)
        if low >= high:
            continue
        share_out(shares, rows, scaled_spans, received, sums, a + 1, stop, low, high, pair == 2)
        for i in range(pair):
            for c in range(a + 1, stop):
                grad_chain[j + i, c] += one * rows[i, c] * sums[i, c]


@jit
def outside_sentence(
    chain, prefix, tokens, states, splits, length, chain_length, spans, rights, scratch, limits, scale_by, gradients
):
    """Add the posteriors, times `scale_by`, to the gradients of chain, prefix and tokens."""
    _, scaled_spans, scale, _, value, terms, _ = scratch
    cutoff = limits[0]
    grad_chain, grad_prefix, grad_tokens = gradients
    block, stop = chain.shape[1], chain_length
    if not spans[0, 0] > NEG_INF:
        return
    prepare_spans(spans, scaled_spans, scale, length, stop, cutoff)
    # the mass of S[c, t] is received · scaled_spans at [t, c], plus what came by the log-space path
    received = np.zeros_like(scaled_spans)
    exact_mass = np.zeros_like(scaled_spans)
    right_mass = np.zeros((block, length + 1))
    value_mass = np.zeros_like(value)
    exact_mass[0, 0] = 1
    for a in range(stop - 1):
        if a > 0:
            fill_prefix_values(value, prefix[a], tokens, states, splits, length, 1 + (a - 1) * block, False)
        own = 1 + a * block
        right_mass[:] = 0.0
        value_mass[:] = 0.0
        lefts = states.shape[0] if a > 0 else 1
        first, last = start_range(a, length, chain_length, block, False)
        fill_terms(terms, value, tokens[own], states, rights[a], length, first, last, lefts)
        for s in range(first, last):
            mass = exact_mass[s, a] + received[s, a] * scaled_spans[s, a]
            if mass < NEGLIGIBLE:
                continue
            for q in range(lefts):
                rest = s + states[q, 1] + 1
                if rest < length:
                    part = mass * math.exp(terms[q, s] - spans[a, s])
                    grad_tokens[own, rest - 1] += scale_by * part
                    right_mass[states[q, 0], rest] += part
                    value_mass[q, s] += part
        if a > 0:
            prefix_outside(
                prefix[a], tokens, states, splits, length, own - block, value, value_mass, scale_by, grad_prefix[a], grad_tokens
            )
        first, last = rest_range(a, length, chain_length, block, False)
        share_over_right(
            chain[a], spans, rights[a], right_mass, received, exact_mass, a, stop, first, last, scratch, limits, scale_by, grad_chain[a]
        )
    end = length - 1
    last_mass = exact_mass[end, stop - 1] + received[end, stop - 1] * scaled_spans[end, stop - 1]
    grad_tokens[1 + (stop - 1) * block, length - 1] += scale_by * last_mass


@jit
def prefix_outside(prefix, tokens, states, splits, length, top, value, mass, scale_by, grad_prefix, grad_tokens):
    """Hand the mass of prefix states down to their rules, tokens and parts, parents before children."""
    for p in range(splits.shape[0] - 1, -1, -1):
        q, rule, left, right, offset, wide = splits[p]
        for i in range(length - wide - 1):
            if mass[q, i] < NEGLIGIBLE:
                continue
            term = prefix[rule] + value[left, i] + tokens[top + offset, i + wide] + value[right, i + wide + 1]
            part = mass[q, i] * math.exp(term - value[q, i])
            grad_prefix[rule] += scale_by * part
            grad_tokens[top + offset, i + wide] += scale_by * part
            mass[left, i] += part
            mass[right, i + wide + 1] += part
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:
            for i in range(length):
                grad_tokens[top + states[q, 0], i] += scale_by * mass[q, i]


@jit
def new_scratch(chain, tokens, states):
    """Working space for one sentence: scaled rules, scaled spans, their scale, totals, prefix values, terms, sums."""
    nodes, width, kinds = chain.shape[1], tokens.shape[2], states.shape[0]
    rules, spans = np.zeros((2, nodes), dtype=chain.dtype), np.zeros((width, nodes), dtype=chain.dtype)
    totals, sums = np.zeros((2, width), dtype=chain.dtype), np.zeros((2, nodes), dtype=chain.dtype)
    return rules, spans, np.zeros(width), totals, np.zeros((kinds, width)), np.zeros((kinds, width)), sums


@jit
def inside_batch(first, last, chain, prefix, tokens, chain_lengths, lengths, states, splits, limits, spans, rights, log_z):
    """Run the inside pass on sentences `first … last - 1`."""
    scratch = new_scratch(chain, tokens, states)
    for b in range(first, last):
        log_z[b] = inside_sentence(
            chain[b], prefix[b], tokens[b], states, splits, lengths[b], chain_lengths[b], spans[b], rights[b], scratch, limits
        )


@jit
def outside_batch(
    first, last, chain, prefix, tokens, chain_lengths, lengths, states, splits, limits, spans, rights, weight, gradients
):
    """Run the outside pass on sentences `first … last - 1`; `weight` is the gradient that arrives at log P."""
    scratch = new_scratch(chain, tokens, states)
    for b in range(first, last):
        if weight[b] != 0:
            outside_sentence(
                chain[b],
                prefix[b],
                tokens[b],
                states,
                splits,
                lengths[b],
                chain_lengths[b],
                spans[b],
                rights[b],
                scratch,
                limits,
                weight[b],
                (gradients[0][b], gradients[1][b], gradients[2][b]),
            )
