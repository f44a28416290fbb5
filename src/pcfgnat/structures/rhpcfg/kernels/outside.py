"""The gradients of log P, which are the posteriors, by an outside pass over the tables of the inside pass.

The posterior mass of S[c, t] is kept as `received[c, t] · scaled_spans[c, t] + exact[c, t]`: the first part
comes from sums in probability space, the second from those few that had to be done in log space.
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
from pcfgnat.structures.rhpcfg.kernels.exponential import scale_rules, smooth_exp

# Posterior mass below this leaves no trace in a gradient.
NEGLIGIBLE = 1e-30


@jit_sum
def share_out(shares, rules, scaled_spans, received, gradient, a, j, weight, start, stop, first, last):
    """Give each right child c its share at each t, and each rule what goes through it.

    `received[c, t] += rules[c] · shares[t]`, and the sum of that times `scaled_spans[c, t]` to the gradient.
    """
    low, high = np.uint64(first), np.uint64(last)
    for c in range(np.uint64(start), np.uint64(stop)):
        rule, total = rules[0, c], shares.dtype.type(0)
        for t in range(low, high):
            total += shares[0, t] * scaled_spans[c, t]
            received[c, t] += rule * shares[0, t]
        gradient[a, j, c] += weight * rule * total


@jit_sum
def share_out_pair(shares, rules, scaled_spans, received, gradient, a, j, weight, start, stop, first, last):
    """`share_out` for left children j and j + 1 at once, which halves the memory traffic."""
    low, high = np.uint64(first), np.uint64(last)
    for c in range(np.uint64(start), np.uint64(stop)):
        rule, other_rule = rules[0, c], rules[1, c]
        total, other_total = shares.dtype.type(0), shares.dtype.type(0)
        for t in range(low, high):
            total += shares[0, t] * scaled_spans[c, t]
            other_total += shares[1, t] * scaled_spans[c, t]
            received[c, t] += rule * shares[0, t] + other_rule * shares[1, t]
        gradient[a, j, c] += weight * rule * total
        gradient[a, j + 1, c] += weight * other_rule * other_total


@jit
def largest_spans(spans, scale, start, stop, length):
    """Find the largest span from node `start` on at every position."""
    scale[:length] = NEG_INF
    for c in range(start, stop):
        for t in range(length):
            scale[t] = max(scale[t], spans[c, t])


@jit_sum
def exp_spans(spans, scaled_spans, scale, start, stop, length, cutoff):
    """`scaled_spans = exp(spans - scale)`, 0 below the cutoff."""
    for c in range(np.uint64(start), np.uint64(stop)):
        for t in range(np.uint64(length)):
            below = spans[c, t] - scale[t]
            value = smooth_exp(below if below > cutoff else cutoff)
            scaled_spans[c, t] = value if below > cutoff else 0.0


@jit
def rescale(spans, scaled_spans, received, scale, t, start, stop, cutoff):
    """Scale position t anew, by the largest span from node `start` on; masses keep their value."""
    largest = NEG_INF
    for c in range(start, stop):
        largest = max(largest, spans[c, t])
    factor = math.exp(largest - scale[t])
    for c in range(start, stop):
        below = spans[c, t] - largest
        scaled_spans[c, t] = math.exp(below) if below > cutoff else 0
        received[c, t] *= factor
    scale[t] = largest


@jit
def pass_to_left(
    states, a, length, first, last, own, mass, left_shares, right_mass, value_mass, weight, grad_tokens
):
    """Hand the mass of S[a, s] on to the token of a, its left child and the sums over right children."""
    right_mass[:] = 0.0
    value_mass[:] = 0.0
    for q in range(states.shape[0] if a > 0 else 1):
        left, wide = states[q, 0], states[q, 1]
        for s in range(first, min(last, length - wide - 1)):
            if mass[s] > NEGLIGIBLE:
                part = mass[s] * left_shares[a, q, s]
                grad_tokens[own, s + wide] += weight * part
                right_mass[left, s + wide + 1] += part
                value_mass[q, s] = part


@jit
def pass_to_prefix(
    prefix, tokens, states, splits, a, length, block, value, mass, weight, grad_prefix, grad_tokens
):
    """Hand the mass of prefix states down to their rules, tokens and parts, parents before children."""
    before = 1 + (a - 1) * block
    for p in range(splits.shape[0] - 1, -1, -1):
        q, rule, left, right, wide = splits[p, 0], splits[p, 1], splits[p, 2], splits[p, 3], splits[p, 5]
        symbol = before + splits[p, 4]
        for i in range(length - wide - 1):
            if mass[q, i] < NEGLIGIBLE:
                continue
            term = prefix[a, rule] + value[left, i] + tokens[symbol, i + wide] + value[right, i + wide + 1]
            part = mass[q, i] * (1.0 if term == value[q, i] else math.exp(term - value[q, i]))
            grad_prefix[a, rule] += weight * part
            grad_tokens[symbol, i + wide] += weight * part
            mass[left, i] += part
            mass[right, i + wide + 1] += part
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:
            for i in range(length):
                grad_tokens[before + states[q, 0], i] += weight * mass[q, i]


@jit
def fill_shares(
    chain, a, j, i, stop, first, last, spans, rights, scaled_spans, received, exact, scale, shares,
    right_mass, largest, cutoff, log_trust, weight, grad_chain,
):  # fmt: skip
    """`shares[i, t]`: mass of G[a, j, t] over its scaled sum; 0 where there is none, or none in this way.

    Where the scaled sum is too small to be trusted, the position is scaled anew; if that does not help, the
    mass is handed on in log space right here. Returns the range of positions that have a share.
    """
    low, high = last, first
    for t in range(first, last):
        shares[i, t] = 0
        if right_mass[j, t] < NEGLIGIBLE:
            continue
        log_product = rights[a, j, t] - scale[t] - largest
        if log_product < log_trust and i == 0:  # the first of a pair: no share depends on the scale yet
            rescale(spans, scaled_spans, received, scale, t, a + 1, stop, cutoff)
            log_product = rights[a, j, t] - scale[t] - largest
        if log_product >= log_trust:
            shares[i, t] = right_mass[j, t] * math.exp(-log_product)
            low, high = min(low, t), max(high, t + 1)
            continue
        for c in range(a + 1, stop):
            part = right_mass[j, t] * math.exp(chain[a, j, c] + spans[c, t] - rights[a, j, t])
            exact[c, t] += part
            grad_chain[a, j, c] += weight * part
    return low, high


@jit
def pass_to_right(
    chain, a, stop, first, last, spans, rights, rules, scaled_spans, received, exact, scale, shares,
    right_mass, maxima, cutoff, trust, weight, grad_chain,
):  # fmt: skip
    """Hand the mass of G[a, j, t] on to the right children and to the gradient of the rules."""
    lefts, log_trust, own_weight = chain.shape[1] if a > 0 else 1, math.log(trust), chain.dtype.type(weight)
    for j in range(0, lefts, 2):
        pair = min(2, lefts - j)
        low, high = last, first
        for i in range(pair):
            least, most = fill_shares(
                chain, a, j + i, i, stop, first, last, spans, rights, scaled_spans, received, exact, scale,
                shares, right_mass, maxima[a, j + i], cutoff, log_trust, weight, grad_chain,
            )  # fmt: skip
            low, high = min(low, least), max(high, most)
        if low >= high:
            continue
        for i in range(pair):
            scale_rules(chain, a, j + i, stop, maxima[a, j + i], cutoff, rules, i)
        if pair == 2:
            share_out_pair(
                shares, rules, scaled_spans, received, grad_chain, a, j, own_weight, a + 1, stop, low, high
            )
        else:
            share_out(
                shares, rules, scaled_spans, received, grad_chain, a, j, own_weight, a + 1, stop, low, high
            )


@jit
def outside_batch(
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
    weights,
    grad_chains,
    grad_prefixes,
    grad_tokens,
):
    """Add the posteriors, times the gradients `weights` that arrive at log P, of a range of sentences."""
    nodes, block, width = chains.shape[1], chains.shape[2], token_weights.shape[2]
    rules, shares = np.zeros((2, nodes), dtype=chains.dtype), np.zeros((2, width), dtype=chains.dtype)
    scaled_spans = np.zeros((nodes, width), dtype=chains.dtype)
    received, exact = np.zeros((nodes, width), dtype=chains.dtype), np.zeros((nodes, width))
    scale, mass, right_mass = np.zeros(width), np.zeros(width), np.zeros((block, width + 1))
    value, value_mass = np.zeros((states.shape[0], width)), np.zeros((states.shape[0], width))
    for b in range(first_sentence, last_sentence):
        chain, prefix, tokens, spans, rights = (
            chains[b],
            prefixes[b],
            token_weights[b],
            all_spans[b],
            all_rights[b],
        )
        grad_chain, grad_prefix, grad_token = grad_chains[b], grad_prefixes[b], grad_tokens[b]
        stop, length, weight = chain_lengths[b], lengths[b], weights[b]
        if weight == 0 or length < 2 or not spans[0, 0] > NEG_INF:
            continue
        largest_spans(spans, scale, 1, stop, length)
        exp_spans(spans, scaled_spans, scale, 1, stop, length, cutoff)
        received[:] = 0
        exact[:] = 0.0
        exact[0, 0] = 1.0
        for a in range(stop):
            for s in range(length):
                mass[s] = exact[a, s] + received[a, s] * scaled_spans[a, s]
            if a == stop - 1:
                grad_token[1 + a * block, length - 1] += weight * mass[length - 1]
                break
            first, last = start_range(a, length, stop, block, False)
            pass_to_left(
                states, a, length, first, last, 1 + a * block, mass, all_shares[b], right_mass, value_mass,
                weight, grad_token,
            )  # fmt: skip
            if a > 0:
                if len(splits) > 0:
                    fill_prefix_values(value, prefix, tokens, states, splits, a, length, block, False)
                pass_to_prefix(
                    prefix,
                    tokens,
                    states,
                    splits,
                    a,
                    length,
                    block,
                    value,
                    value_mass,
                    weight,
                    grad_prefix,
                    grad_token,
                )
            first, last = rest_range(a, length, stop, block, False)
            pass_to_right(
                chain, a, stop, first, last, spans, rights, rules, scaled_spans, received, exact, scale,
                shares, right_mass, all_maxima[b], cutoff, trust, weight, grad_chain,
            )  # fmt: skip
