"""The best sentences of a batch under several length penalties, with their scores, in one call."""

import numpy as np

from pcfgnat.grammar.kernels.common import NEG_INF, jit
from pcfgnat.grammar.kernels.drafts import fill_free


@jit
def best_of_batch(
    first, last, chains, prefixes, chain_lengths, offsets, lefts, moves, first_move, entries, offset, scores,
    tokens, limits, powers, lengths, symbols, ids, rule_scores, token_scores,
):  # fmt: skip
    """Write the best sentence of each of `first … last - 1` by `score / L^β`, of the best token of each node.

    powers:  `L^β` by penalty and length
    lengths: `[B, P]`, 0 where a sentence has no derivation within its limit; rows of `[B, P, N]` are as long
    """
    block, states = chains.shape[2], offsets.shape[0]
    best = np.empty((chains.shape[1], states + 1, powers.shape[1]))
    for b in range(first, last):
        chain, prefix, stop, own = chains[b], prefixes[b], chain_lengths[b], scores[b]
        fill_free(chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, own, best)
        root = states - block
        for p in range(powers.shape[0]):
            found, highest = 0, NEG_INF
            for length in range(1, limits[b] + 1):
                value = best[0, root, length] / powers[p, length]
                if value > highest:
                    found, highest = length, value
            lengths[b, p] = found
            trace_scored(
                chain, prefix, stop, offsets, lefts, moves, first_move, entries, best, root, found,
                symbols[b, p], rule_scores[b, p],
            )  # fmt: skip
            for i in range(found):
                node = symbols[b, p, i] - offset
                ids[b, p, i], token_scores[b, p, i] = tokens[b, node], own[node]


@jit
def trace_scored(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, best, x, length, symbols, rule_scores
):
    """Enter the symbols of the best derivation of `length` tokens from the root, and their rules' scores."""
    block, states, a = chain.shape[1], offsets.shape[0], 0
    for i in range(length):
        symbols[i] = 1 + (a - 1) * block + offsets[x]
        rest, value, node, state, score = length - i - 1, NEG_INF, a, x, np.float64(0.0)
        if offsets[x] == block:
            for c in range(a + 1, stop):
                weight = np.float64(chain[a, lefts[x], c])
                if weight + best[c, states, rest] > value:
                    value, node, score = weight + best[c, states, rest], c, weight
        else:
            for move in range(first_move[x], first_move[x + 1]):
                rule, y = moves[move, 0], moves[move, 1]
                weight = np.float64(prefix[a, rule]) if rule >= 0 else np.float64(0.0)
                if weight + best[a, y, rest] > value:
                    value, state, score = weight + best[a, y, rest], y, weight
        rule_scores[i] = score
        if offsets[x] == block:  # the block's best beginning
            value = NEG_INF
            for e in range(entries.shape[0]):
                if best[node, entries[e], rest] > value:
                    value, state = best[node, entries[e], rest], entries[e]
        a, x = node, state
