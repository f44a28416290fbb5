"""log P and its gradients, the posteriors, by an inside and an outside pass.

Nearly all of the work are sums over right children, `G[a, j] = log Σ_c exp(rule[a, j, c] + S[c])`. They run as dot
products in probability space: rules scaled by their row's maximum, spans by the maximum of the spans that the row
can reach. Where such a product comes out too small to be trusted, that one row is summed in log space instead,
so that no result depends on the scaling: with a single maximum a true log P of -200 can come out as -85.
"""

import math

import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import (
    NEG_INF,
    derivable,
    fill_prefix_values,
    highest_node,
    jit,
    jit_sum,
    log_add,
    lowest_node,
    lowest_parent,
    prefix_symbol,
)

# A span that exceeds the scale by more than this many nats becomes the new scale.
RESCALE = 20.0
# Posterior mass below this leaves no trace in a gradient.
NEGLIGIBLE = 1e-30


@jit_sum
def dot(row, vector, start, stop):
    """Sum of products over `start … stop - 1`."""
    total = row[0] * 0
    for c in range(start, stop):
        total += row[c] * vector[c]
    return total


@jit
def log_dot(row, spans, start, stop):
    """log Σ exp(row + spans), exactly; NaN if anything is."""
    largest = NEG_INF
    for c in range(start, stop):
        term = row[c] + spans[c]
        if term != term:
            return term
        largest = max(largest, term)
    if largest == NEG_INF:
        return largest
    total = 0.0
    for c in range(start, stop):
        total += math.exp(row[c] + spans[c] - largest)
    return largest + math.log(total)


@jit_sum
def share_out(row, vector, factor, scale, mass, gradient, start, stop):
    """Divide posterior mass among right children as `factor · row · vector`; add it to the rules' gradient too."""
    for c in range(start, stop):
        part = factor * row[c] * vector[c]
        mass[c] += part
        gradient[c] += scale * part


@jit
def log_share_out(row, spans, total, amount, scale, mass, gradient, start, stop):
    """Divide posterior mass among right children, exactly, for rows that are too small to scale."""
    for c in range(start, stop):
        part = amount * math.exp(row[c] + spans[c] - total)
        mass[c] += part
        gradient[c] += scale * part


@jit
def scale_rules(chain, chain_length, scaled, row_max, cutoff):
    """`scaled = exp(chain - row_max)` over the legal right children, 0 where that is below the cutoff."""
    for a in range(chain_length - 1):
        for j in range(chain.shape[1] if a > 0 else 1):
            row, out = chain[a, j], scaled[a, j]
            largest = row[a + 1]
            for c in range(a + 1, chain_length):
                if row[c] != row[c]:
                    largest = row[c]
                    break
                largest = max(largest, row[c])
            row_max[a, j] = largest
            for c in range(a + 1, chain_length):
                below = row[c] - largest
                out[c] = 0 if below < cutoff else math.exp(below)


@jit
def enter_span(vector, spans, c, stop, scale, cutoff):
    """Set `vector[c] = exp(spans[c] - scale)`, raising the scale of all later entries first where it must."""
    span = spans[c]
    if span > scale + RESCALE:
        factor = math.exp(scale - span)
        for later in range(c + 1, stop):
            vector[later] *= factor
        scale = span
    elif span != span:
        scale = span
    below = span - scale
    vector[c] = math.exp(below) if below >= cutoff else 0
    return scale


@jit
def inside_sentence(chain, prefix, tokens, states, splits, length, chain_length, spans, rights, scratch, limits):
    """Fill S = `spans[s, a]` and G = `rights[s, a, j]`; return log P."""
    scaled, row_max, vector, value = scratch
    cutoff, trust = limits
    block = chain.shape[1]
    spans[:] = NEG_INF
    rights[:] = NEG_INF
    if not derivable(length, chain_length, block):
        return NEG_INF
    fill_prefix_values(value, prefix, tokens, states, splits, length, chain_length, block, False)
    scale_rules(chain, chain_length, scaled, row_max, cutoff)
    spans[length - 1, chain_length - 1] = tokens[1 + (chain_length - 1) * block, length - 1]
    for s in range(length - 1, 0, -1):
        low, high = lowest_node(s, block), highest_node(length - s, chain_length, block)
        if s < length - 1:
            for a in range(low, high + 1):
                spans[s, a] = sum_over_left(value, tokens, states, rights, s, a, length, block)
        else:
            low = high
        scale = NEG_INF
        for a in range(high - 1, lowest_parent(s, block) - 1, -1):
            if a + 1 >= low:
                scale = enter_span(vector, spans[s], a + 1, high + 1, scale, cutoff)
            if scale == NEG_INF or (s == 1 and a > 0):
                continue
            first = max(a + 1, low)
            for j in range(block if a > 0 else 1):
                if row_max[a, j] == NEG_INF:
                    continue
                product = dot(scaled[a, j], vector, first, high + 1)
                if product > trust:
                    rights[s, a, j] = math.log(product) + scale + row_max[a, j]
                else:
                    rights[s, a, j] = log_dot(chain[a, j], spans[s], first, high + 1)
    spans[0, 0] = sum_over_left(value, tokens, states, rights, 0, 0, length, block)
    return spans[0, 0]


@jit
def sum_over_left(value, tokens, states, rights, s, a, length, block):
    """S[a, s]: sum over left children and how many tokens they derive."""
    total = NEG_INF
    for q in range(states.shape[0] if a > 0 else 1):
        rest = s + states[q, 1] + 1
        if rest < length:
            term = value[q, a, s] + tokens[1 + a * block, rest - 1] + rights[rest, a, states[q, 0]]
            total = log_add(total, term)
    return total


@jit
def outside_sentence(
    chain, prefix, tokens, states, splits, length, chain_length, spans, rights, scratch, limits, scale_by, gradients
):
    """Add the posteriors, times `scale_by`, to the gradients of chain, prefix and tokens."""
    scaled, row_max, vector, value = scratch
    cutoff, trust = limits
    grad_chain, grad_prefix, grad_tokens = gradients
    block = chain.shape[1]
    if not spans[0, 0] > NEG_INF:
        return
    fill_prefix_values(value, prefix, tokens, states, splits, length, chain_length, block, False)
    scale_rules(chain, chain_length, scaled, row_max, cutoff)
    value_mass = np.zeros_like(value)
    mass = np.zeros(chain_length, dtype=chain.dtype)  # of S[a, s] at the current s
    right_mass = np.zeros((block + 1, chain_length, block))  # of G[a, j] at the next positions, a ring
    mass[0] = 1
    log_trust = math.log(trust)
    for s in range(length):
        low, high = lowest_node(s, block), highest_node(length - s, chain_length, block)
        if s > 0:
            low = high if s == length - 1 else low
            mass[:] = 0
            ring = right_mass[s % (block + 1)]
            scale = NEG_INF
            for a in range(high - 1, lowest_parent(s, block) - 1, -1):
                if a + 1 >= low:
                    scale = enter_span(vector, spans[s], a + 1, high + 1, scale, cutoff)
                first = max(a + 1, low)
                for j in range(block if a > 0 else 1):
                    amount = ring[a, j]
                    if amount < NEGLIGIBLE:
                        continue
                    log_product = rights[s, a, j] - scale - row_max[a, j]
                    if log_product > log_trust:
                        factor = mass.dtype.type(amount * math.exp(-log_product))
                        share_out(scaled[a, j], vector, factor, scale_by, mass, grad_chain[a, j], first, high + 1)
                    else:
                        log_share_out(
                            chain[a, j], spans[s], rights[s, a, j], amount, scale_by, mass, grad_chain[a, j], first, high + 1
                        )
            ring[:] = 0.0
        if s == length - 1:
            grad_tokens[1 + (chain_length - 1) * block, s] += scale_by * mass[chain_length - 1]
            break
        for a in range(low, high + 1):
            if mass[a] < NEGLIGIBLE:
                continue
            for q in range(states.shape[0] if a > 0 else 1):
                rest = s + states[q, 1] + 1
                if rest >= length:
                    continue
                term = value[q, a, s] + tokens[1 + a * block, rest - 1] + rights[rest, a, states[q, 0]]
                part = mass[a] * math.exp(term - spans[s, a])
                grad_tokens[1 + a * block, rest - 1] += scale_by * part
                right_mass[rest % (block + 1), a, states[q, 0]] += part
                value_mass[q, a, s] += part
    prefix_outside(prefix, tokens, states, splits, length, chain_length, block, value, value_mass, scale_by, gradients)


@jit
def prefix_outside(prefix, tokens, states, splits, length, chain_length, block, value, mass, scale_by, gradients):
    """Hand the mass of prefix states down to their rules, tokens and parts, parents before children."""
    _, grad_prefix, grad_tokens = gradients
    for p in range(splits.shape[0] - 1, -1, -1):
        q, rule, left, right, offset, wide = splits[p]
        for k in range(1, chain_length - 1):
            symbol = prefix_symbol(k, offset, block)
            for i in range(length - wide - 1):
                if mass[q, k, i] < NEGLIGIBLE:
                    continue
                term = prefix[k, rule] + value[left, k, i] + tokens[symbol, i + wide] + value[right, k, i + wide + 1]
                part = mass[q, k, i] * math.exp(term - value[q, k, i])
                grad_prefix[k, rule] += scale_by * part
                grad_tokens[symbol, i + wide] += scale_by * part
                mass[left, k, i] += part
                mass[right, k, i + wide + 1] += part
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:
            for k in range(1, chain_length - 1):
                symbol = prefix_symbol(k, states[q, 0], block)
                for i in range(length):
                    grad_tokens[symbol, i] += scale_by * mass[q, k, i]


@jit
def new_scratch(chain, tokens, states):
    """Working space for one sentence at a time: scaled rules, their maxima, scaled spans, prefix values."""
    length, block = chain.shape[1], chain.shape[2]
    scaled = np.zeros((length, block, length), dtype=chain.dtype)
    vector = np.zeros(length, dtype=chain.dtype)
    return scaled, np.full((length, block), NEG_INF), vector, np.empty((states.shape[0], length, tokens.shape[2]))


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
