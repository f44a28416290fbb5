"""The gradients of log P, which are the posteriors, by an outside pass over the tables of the inside pass.

The posterior mass of S[c, t] is kept as `received[t, c] · scaled_spans[t, c] + exact[c, t]`: the first part
comes from sums in probability space, the second from those few that had to be done in log space. Positions
come first here, so that what a node hands to all right children are loops along contiguous rows.
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
    exp_for,
    scale_rules,
    whole_vectors_before,
)
from pcfgnat.grammar.kernels.inside import add_up

# Posterior mass below this leaves no trace in a gradient.
NEGLIGIBLE = 1e-30


@jit_sum
def hand_out(received, rules, shares, j, pair, start, stop, first, last):
    """`received[t, c] += rules[j, c] · shares[j, t]`, and the same for left child j + 1 if `pair`."""
    low, high = np.uint64(start), np.uint64(stop)
    for t in range(first, last):
        p, q = shares[j, t], shares[j + 1, t] if pair else shares.dtype.type(0)
        if p == 0 and q == 0:
            continue
        if pair:
            for c in range(low, high):
                received[t, c] += p * rules[j, c] + q * rules[j + 1, c]
        else:
            for c in range(low, high):
                received[t, c] += p * rules[j, c]


@jit
def exp_spans(spans, scaled_spans, scale, row, stop, length, cutoff):
    """`scaled_spans[t, c] = exp(spans[c, t] - scale[t])`, 0 below the cutoff; the scale is the largest."""
    single = scaled_spans.itemsize == 4
    scale[:length] = NEG_INF
    for c in range(1, stop):
        for t in range(np.uint64(length)):
            scale[t] = spans[c, t] if spans[c, t] > scale[t] else scale[t]
    for c in range(1, stop):
        for t in range(np.uint64(length)):
            below = spans[c, t] - scale[t]
            value = exp_for(below if below > cutoff else cutoff, single)
            row[t] = value if below > cutoff else 0.0
        for t in range(length):
            scaled_spans[t, c] = row[t]


@jit
def rescale(spans, scaled_spans, received, scale, t, start, stop, cutoff):
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
def pass_to_left(
    states, a, length, first, last, own, mass, left_shares, right_mass, value_mass, weight, grad_tokens
):
    """Hand the mass of S[a, s] on to the token of a, its left child and the sums over right children.

    Three loops for one: a loop that writes to one array only is vectorised without much checking.
    """
    right_mass[:] = 0.0
    value_mass[:] = 0.0
    one, low = np.uint64(1), np.uint64(first)
    for q in range(states.shape[0] if a > 0 else 1):
        left, wide = states[q, 0], np.uint64(states[q, 1])
        high = np.uint64(max(first, min(last, length - states[q, 1] - 1)))
        for s in range(low, high):
            value_mass[q, s] = mass[s] * left_shares[a, q, s]
        for s in range(low, high):
            right_mass[left, s + wide + one] += value_mass[q, s]
        for s in range(low, high):
            grad_tokens[own, s + wide] += weight * value_mass[q, s]


@jit
def pass_to_prefix(
    prefix, tokens, states, splits, choices, a, length, block, value, mass, weight, grad_prefix, grad_tokens
):
    """Hand the mass of prefix states down to their rules, tokens and parts, parents before children.

    Without `choices` every state has one split, which takes all its mass; `value` is not read then.
    """
    before, one = 1 + (a - 1) * block, np.uint64(1)
    for p in range(splits.shape[0] - 1, -1, -1):
        q, rule, left, right = splits[p, 0], splits[p, 1], splits[p, 2], splits[p, 3]
        symbol, wide, total = before + splits[p, 4], np.uint64(splits[p, 5]), 0.0
        for i in range(np.uint64(max(length - splits[p, 5] - 1, 0))):
            part = mass[q, i]
            if part < NEGLIGIBLE:
                continue
            if choices:
                head = prefix[a, rule] + value[left, i]
                term = head + tokens[symbol, i + wide] + value[right, i + wide + one]
                part *= 1.0 if term == value[q, i] else math.exp(term - value[q, i])
            total += part
            grad_tokens[symbol, i + wide] += weight * part
            mass[left, i] += part
            mass[right, i + wide + one] += part
        grad_prefix[a, rule] += weight * total
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:
            symbol = before + states[q, 0]
            for i in range(np.uint64(length)):
                grad_tokens[symbol, i] += weight * mass[q, i]


@jit
def fill_shares(rights, a, j, first, last, scale, largest, right_mass, log_trust, shares):
    """`shares[j, t]`: mass of G[a, j, t] over its scaled sum, 0 where there is none.

    Where the scaled sum is too small to be trusted it is 0 too; returns how many of these there are.
    """
    doubtful, single = 0, shares.itemsize == 4
    for t in range(np.uint64(first), np.uint64(last)):
        log_product = rights[a, j, t] - scale[t] - largest
        trusted, some = log_product >= log_trust, right_mass[j, t] >= NEGLIGIBLE
        doubtful += some and not trusted
        exponent = -log_product if trusted else 0.0
        share = right_mass[j, t] * exp_for(exponent, single)
        shares[j, t] = share if some and trusted else 0.0
    return doubtful


@jit
def mend_shares(
    chain, a, lefts, stop, first, last, spans, rights, scaled_spans, received, exact, scale, shares,
    right_mass, maxima, cutoff, log_trust, weight, grad_chain,
):  # fmt: skip
    """Scale positions with an untrusted sum anew; where that does not help, hand its mass on in log space."""
    for t in range(first, last):
        doubtful = False
        for j in range(lefts):
            trusted = rights[a, j, t] - scale[t] - maxima[a, j] >= log_trust
            doubtful |= right_mass[j, t] >= NEGLIGIBLE and not trusted
        if not doubtful:
            continue
        rescale(spans, scaled_spans, received, scale, t, a + 1, stop, cutoff)
        for j in range(lefts):
            shares[j, t] = 0
            if right_mass[j, t] < NEGLIGIBLE:
                continue
            log_product = rights[a, j, t] - scale[t] - maxima[a, j]
            if log_product >= log_trust:
                shares[j, t] = right_mass[j, t] * math.exp(-log_product)
                continue
            for c in range(a + 1, stop):
                part = right_mass[j, t] * math.exp(chain[a, j, c] + spans[c, t] - rights[a, j, t])
                exact[c, t] += part
                grad_chain[a, j, c] += weight * part


@jit
def pass_to_right(
    chain, a, stop, first, last, spans, rights, rules, scaled_spans, received, exact, scale, shares, sums,
    right_mass, maxima, cutoff, trust, weight, grad_chain,
):  # fmt: skip
    """Hand the mass of G[a, j, t] on to the right children and to the gradient of the rules."""
    lefts, log_trust, own_weight = chain.shape[1] if a > 0 else 1, math.log(trust), chain.dtype.type(weight)
    doubtful = 0
    for j in range(lefts):
        doubtful += fill_shares(
            rights, a, j, first, last, scale, np.float64(maxima[a, j]), right_mass, log_trust, shares
        )
    if doubtful > 0:
        mend_shares(
            chain, a, lefts, stop, first, last, spans, rights, scaled_spans, received, exact, scale, shares,
            right_mass, maxima, cutoff, log_trust, weight, grad_chain,
        )  # fmt: skip
    start = whole_vectors_before(a + 1, stop)
    for j in range(lefts):
        scale_rules(chain, a, j, stop, maxima[a, j], cutoff, rules)
    for j in range(0, lefts, 2):
        pair = j + 1 < lefts
        add_up(sums, shares, j, pair, scaled_spans, first, last, start, stop)
        hand_out(received, rules, shares, j, pair, start, stop, first, last)
    for j in range(lefts):
        for c in range(np.uint64(a + 1), np.uint64(stop)):
            grad_chain[a, j, c] += own_weight * rules[j, c] * sums[j, c]


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
    """Write the posteriors, times the gradients `weights` that arrive at log P, of a range of sentences."""
    nodes, block, width = chains.shape[1], chains.shape[2], token_weights.shape[2]
    dtype = chains.dtype
    rules, sums = np.zeros((block, nodes), dtype), np.zeros((block, nodes), dtype)
    scaled_spans, received = np.zeros((width, nodes), dtype), np.zeros((width, nodes), dtype)
    shares, exact = np.zeros((block, width), dtype), np.zeros((nodes, width))
    scale, mass, right_mass = np.zeros(width), np.zeros(width), np.zeros((block, width + 1))
    value, value_mass = np.zeros((states.shape[0], width)), np.zeros((states.shape[0], width))
    choices = splits.shape[0] > (states[:, 1] > 1).sum()
    for b in range(first_sentence, last_sentence):
        chain, prefix, tokens = chains[b], prefixes[b], token_weights[b]
        spans, rights, left_shares, maxima = all_spans[b], all_rights[b], all_shares[b], all_maxima[b]
        grad_chain, grad_prefix, grad_token = grad_chains[b], grad_prefixes[b], grad_tokens[b]
        grad_chain[:] = 0
        grad_prefix[:] = 0
        grad_token[:] = 0
        stop, length, weight = chain_lengths[b], lengths[b], weights[b]
        if weight == 0 or length < 2 or not spans[0, 0] > NEG_INF:
            continue
        exp_spans(spans, scaled_spans, scale, mass, stop, length, cutoff)
        received[:] = 0
        exact[:] = 0.0
        exact[0, 0] = 1.0
        for a in range(stop):
            for s in range(length):
                found = exact[a, s] + received[s, a] * scaled_spans[s, a]
                mass[s] = found if found > NEGLIGIBLE else 0.0
            if a == stop - 1:
                grad_token[1 + a * block, length - 1] += weight * mass[length - 1]
                break
            first, last = start_range(a, length, stop, block, False)
            pass_to_left(
                states, a, length, first, last, 1 + a * block, mass, left_shares, right_mass, value_mass,
                weight, grad_token,
            )  # fmt: skip
            if a > 0:
                if choices:
                    fill_prefix_values(value, prefix, tokens, states, splits, a, length, block, False)
                pass_to_prefix(
                    prefix, tokens, states, splits, choices, a, length, block, value, value_mass, weight,
                    grad_prefix, grad_token,
                )  # fmt: skip
            first, last = rest_range(a, length, stop, block, False)
            pass_to_right(
                chain, a, stop, first, last, spans, rights, rules, scaled_spans, received, exact, scale,
                shares, sums, right_mass, maxima, cutoff, trust, weight, grad_chain,
            )  # fmt: skip
