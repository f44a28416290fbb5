"""The gradients of log P, which are the posteriors, by an outside pass over the tables of the inside pass."""

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
from pcfgnat.structures.rhpcfg.kernels.inside import fill_terms, new_scratch, scale_row

# Posterior mass below this leaves no trace in a gradient.
NEGLIGIBLE = 1e-30


class Gradients(NamedTuple):
    """Where gradients are added to, and the gradient that arrives at log P."""

    chain: Any
    prefix: Any
    tokens: Any
    weight: Any


class Mass(NamedTuple):
    """Posterior mass on its way down. That of S[c, t] is `received · spans + exact`."""

    spans: Any  # [C, N]: exp(S - scale), in the dtype of the scores
    received: Any  # [C, N], in the dtype of the scores
    exact: Any  # [C, N]: what came by the log-space path
    rights: Any  # [d, N]: of G[a, j, t] at the current a
    value: Any  # [Q, N]: of the prefix values of the current a


@jit_sum
def share_out(shares, rules, mass, chain_gradient, weight, start, stop, first, last):
    """Give each right child c its share at each t, and each rule what goes through it.

    `received[c, t] += rules[c] · shares[t]`, and the sum of that times `spans[c, t]` to the gradient of c.
    """
    share = shares[first:last]
    for c in range(start, stop):
        span, into, rule = mass.spans[c, first:last], mass.received[c, first:last], rules[c]
        total = share.dtype.type(0)
        for t in range(share.shape[0]):
            total += share[t] * span[t]
            into[t] += rule * share[t]
        chain_gradient[c] += weight * rule * total


@jit_sum
def share_out_pair(shares, rules, mass, chain_gradient, weight, start, stop, first, last):
    """`share_out` for two left children at once, which halves the memory traffic."""
    share, other_share = shares[0, first:last], shares[1, first:last]
    for c in range(start, stop):
        span, into = mass.spans[c, first:last], mass.received[c, first:last]
        rule, other_rule = rules[0, c], rules[1, c]
        total, other_total = share.dtype.type(0), share.dtype.type(0)
        for t in range(share.shape[0]):
            total += share[t] * span[t]
            other_total += other_share[t] * span[t]
            into[t] += rule * share[t] + other_rule * other_share[t]
        chain_gradient[0, c] += weight * rule * total
        chain_gradient[1, c] += weight * other_rule * other_total


@jit
def scale_spans(spans, mass, scale, length, stop, cutoff):
    """Scale all spans by the largest at their position."""
    for t in range(length):
        largest = NEG_INF
        for c in range(1, stop):
            largest = max(largest, spans[c, t])
        scale[t] = largest
    for c in range(1, stop):
        for t in range(length):
            below = spans[c, t] - scale[t]
            mass.spans[c, t] = math.exp(below) if below > cutoff else 0


@jit
def rescale(spans, mass, scale, t, start, stop, cutoff):
    """Scale position t anew, by the largest span from node `start` on; masses keep their value."""
    largest = NEG_INF
    for c in range(start, stop):
        largest = max(largest, spans[c, t])
    factor = math.exp(largest - scale[t])
    for c in range(start, stop):
        below = spans[c, t] - largest
        mass.spans[c, t] = math.exp(below) if below > cutoff else 0
        mass.received[c, t] *= factor
    scale[t] = largest


@jit
def leave_to_left(sentence, a, spans, rights, scratch, mass, gradients):
    """Hand the mass of S[a, s] on to the token of a, its left child and the sums over right children."""
    states, own = sentence.states, 1 + a * sentence.chain.shape[1]
    lefts = len(states) if a > 0 else 1
    first, last = start_range(sentence, a, False)
    if a > 0:
        fill_prefix_values(scratch.value, sentence, a, False)
    fill_terms(scratch.terms, scratch.value, sentence, a, rights, first, last)
    mass.rights[:] = 0.0
    mass.value[:] = 0.0
    for s in range(first, last):
        amount = mass.exact[a, s] + mass.received[a, s] * mass.spans[a, s]
        if amount < NEGLIGIBLE:
            continue
        for q in range(lefts):
            rest = s + states[q, 1] + 1
            if rest < sentence.length:
                part = amount * math.exp(scratch.terms[q, s] - spans[a, s])
                gradients.tokens[own, rest - 1] += gradients.weight * part
                mass.rights[states[q, 0], rest] += part
                mass.value[q, s] += part


@jit
def leave_to_right(sentence, a, spans, rights, scratch, limits, mass, gradients):
    """Hand the mass of G[a, j, t] on to the right children and to the gradient of the rules."""
    chain, stop = sentence.chain[a], sentence.stop
    first, last = rest_range(sentence, a, False)
    weight = chain.dtype.type(gradients.weight)
    lefts = chain.shape[0] if a > 0 else 1
    for j in range(0, lefts, 2):
        pair = min(2, lefts - j)
        low, high = last, first  # the positions that have any mass
        for i in range(pair):
            largest = scale_row(chain[j + i], a + 1, stop, limits.cutoff, scratch.rules[i])
            fill_shares(sentence, a, j, i, spans, rights, scratch, limits, largest, mass, gradients)
            for t in range(first, last):
                if scratch.totals[i, t] > 0:
                    low, high = min(low, t), max(high, t + 1)
        if low < high:
            own, rules = gradients.chain[a, j : j + pair], scratch.rules
            if pair == 2:
                share_out_pair(scratch.totals, rules, mass, own, weight, a + 1, stop, low, high)
            else:
                share_out(scratch.totals[0], rules[0], mass, own[0], weight, a + 1, stop, low, high)


@jit
def fill_shares(sentence, a, j, i, spans, rights, scratch, limits, largest, mass, gradients):
    """`totals[i, t]`: mass of G[a, j+i, t] over its scaled sum; 0 where there is none, or none in this way.

    Where the scaled sum is too small to be trusted, the position is scaled anew; if that does not help, the
    mass is handed on in log space right here.
    """
    first, last = rest_range(sentence, a, False)
    stop, log_trust = sentence.stop, math.log(limits.trust)
    row, right, amounts = sentence.chain[a, j + i], rights[a, j + i], mass.rights[j + i]
    shares, scale = scratch.totals[i], scratch.scale
    for t in range(first, last):
        shares[t] = 0
        if amounts[t] < NEGLIGIBLE:
            continue
        log_product = right[t] - scale[t] - largest
        if log_product < log_trust and i == 0:  # the first of a pair: no share depends on the scale yet
            rescale(spans, mass, scale, t, a + 1, stop, limits.cutoff)
            log_product = right[t] - scale[t] - largest
        if log_product >= log_trust:
            shares[t] = amounts[t] * math.exp(-log_product)
            continue
        for c in range(a + 1, stop):
            part = amounts[t] * math.exp(row[c] + spans[c, t] - right[t])
            mass.exact[c, t] += part
            gradients.chain[a, j + i, c] += gradients.weight * part


@jit
def leave_to_prefix(sentence, a, scratch, mass, gradients):
    """Hand the mass of prefix states down to their rules, tokens and parts, parents before children."""
    states, splits, tokens, value = sentence.states, sentence.splits, sentence.tokens, scratch.value
    before, weight = 1 + (a - 1) * sentence.chain.shape[1], gradients.weight
    for p in range(splits.shape[0] - 1, -1, -1):
        q, rule, left, right, offset, wide = splits[p]
        for i in range(sentence.length - wide - 1):
            if mass.value[q, i] < NEGLIGIBLE:
                continue
            tail = tokens[before + offset, i + wide] + value[right, i + wide + 1]
            part = mass.value[q, i] * math.exp(sentence.prefix[a, rule] + value[left, i] + tail - value[q, i])
            gradients.prefix[a, rule] += weight * part
            gradients.tokens[before + offset, i + wide] += weight * part
            mass.value[left, i] += part
            mass.value[right, i + wide + 1] += part
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:
            for i in range(sentence.length):
                gradients.tokens[before + states[q, 0], i] += weight * mass.value[q, i]


@jit
def outside_sentence(sentence, spans, rights, scratch, limits, gradients):
    """Add the posteriors, times the weight, to the gradients; nothing for a sentence of probability 0."""
    if sentence.length < 2 or not spans[0, 0] > NEG_INF:
        return
    block, stop, end = sentence.chain.shape[1], sentence.stop, sentence.length - 1
    shape = spans.shape
    mass = Mass(
        np.zeros(shape, dtype=sentence.chain.dtype),
        np.zeros(shape, dtype=sentence.chain.dtype),
        np.zeros(shape),
        np.zeros((block, shape[1])),
        np.zeros_like(scratch.value),
    )
    scale_spans(spans, mass, scratch.scale, sentence.length, stop, limits.cutoff)
    mass.exact[0, 0] = 1.0
    for a in range(stop - 1):
        leave_to_left(sentence, a, spans, rights, scratch, mass, gradients)
        if a > 0:
            leave_to_prefix(sentence, a, scratch, mass, gradients)
        leave_to_right(sentence, a, spans, rights, scratch, limits, mass, gradients)
    last = mass.exact[stop - 1, end] + mass.received[stop - 1, end] * mass.spans[stop - 1, end]
    gradients.tokens[1 + (stop - 1) * block, end] += gradients.weight * last


@jit
def outside_batch(first, last, batch, limits, spans, rights, gradients):
    """Run the outside pass on sentences `first … last - 1`."""
    scratch = new_scratch(batch)
    for b in range(first, last):
        if gradients.weight[b] != 0:
            own = Gradients(gradients.chain[b], gradients.prefix[b], gradients.tokens[b], gradients.weight[b])
            outside_sentence(pick(batch, b), spans[b], rights[b], scratch, limits, own)
