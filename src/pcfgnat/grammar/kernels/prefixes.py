"""From the root forwards over given tokens: which state emits next, as the best way there or all ways summed.

`front[a, x]` is the log-weight of having emitted the prefix such that state x of main-chain node a's block
emits the next token.
"""

import math

import numpy as np

from pcfgnat.grammar.kernels.common import NEG_INF, jit, log_add
from pcfgnat.grammar.kernels.continuations import exists, value_at

NOWHERE = -1


@jit
def emitted(front, weights, a, x, symbol):
    """Weight of a state with its token; the root and the last node have no prefix tree to look at."""
    return front[a, x] + weights[symbol] if front[a, x] > NEG_INF else NEG_INF


@jit
def extend_best(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, weights, front, following, came
):
    """Emit one more token; return the weight of ending there. `came` names the state `a · X + x` before."""
    block, states = chain.shape[1], offsets.shape[0]
    entered, origin = np.full(stop, NEG_INF), np.full(stop, NOWHERE, dtype=np.int64)
    following[:] = NEG_INF
    came[:] = NOWHERE
    ended = NEG_INF
    for a in range(stop):
        for x in range(states):
            weight = (
                front[a, x] + weights[1 + (a - 1) * block + offsets[x]] if front[a, x] > NEG_INF else NEG_INF
            )
            if weight == NEG_INF:
                continue
            here = a * states + x
            if offsets[x] < block:
                for move in range(first_move[x], first_move[x + 1]):
                    rule, y = moves[move, 0], moves[move, 1]
                    value = weight + (np.float64(prefix[a, rule]) if rule >= 0 else 0.0)
                    if value > following[a, y]:
                        following[a, y], came[a, y] = value, here
            elif a == stop - 1:
                ended = weight
            else:
                for c in range(a + 1, stop):
                    value = weight + np.float64(chain[a, lefts[x], c])
                    if value > entered[c]:
                        entered[c], origin[c] = value, here
    for c in range(1, stop):
        for e in range(entries.shape[0]):
            x = entries[e]
            if exists(c, x, stop, states - block) and entered[c] > following[c, x]:
                following[c, x], came[c, x] = entered[c], origin[c]
    return ended


@jit
def extend_sum(chain, prefix, stop, offsets, lefts, moves, first_move, entries, weights, front, following):
    """Emit one more token, all ways summed; return the log-weight of ending there."""
    block, states = chain.shape[1], offsets.shape[0]
    leaving = np.full((stop, block), NEG_INF)
    following[:] = NEG_INF
    ended = NEG_INF
    for a in range(stop):
        for x in range(states):
            weight = (
                front[a, x] + weights[1 + (a - 1) * block + offsets[x]] if front[a, x] > NEG_INF else NEG_INF
            )
            if weight == NEG_INF:
                continue
            if offsets[x] < block:
                for move in range(first_move[x], first_move[x + 1]):
                    rule, y = moves[move, 0], moves[move, 1]
                    value = weight + (np.float64(prefix[a, rule]) if rule >= 0 else 0.0)
                    following[a, y] = log_add(following[a, y], value)
            elif a == stop - 1:
                ended = weight
            else:
                leaving[a, lefts[x]] = weight
    for c in range(1, stop):
        entered = sum_into(chain, leaving, c)
        for e in range(entries.shape[0]):
            x = entries[e]
            if exists(c, x, stop, states - block):
                following[c, x] = log_add(following[c, x], entered)
    return ended


@jit
def sum_into(chain, leaving, c):
    """log Σ_{a < c, b} exp(leaving[a, b] + chain[a, b, c])."""
    largest = NEG_INF
    for a in range(c):
        for b in range(leaving.shape[1]):
            if leaving[a, b] > NEG_INF:  # a rule that is never used may hold anything
                largest = max(largest, leaving[a, b] + chain[a, b, c])
    if largest == NEG_INF:
        return largest
    total = 0.0
    for a in range(c):
        for b in range(leaving.shape[1]):
            if leaving[a, b] > NEG_INF:
                total += math.exp(leaving[a, b] + chain[a, b, c] - largest)
    return largest + math.log(total)


@jit
def fill_remaining(chain, prefix, stop, offsets, lefts, moves, first_move, remaining):
    """`remaining[a, x]`: log-weight of all that may follow the token of (a, x), which is not 1 everywhere.

    The probability of a rule is split: its part that has been decided already belongs to what comes behind.
    """
    block, states = chain.shape[1], offsets.shape[0]
    remaining[:] = NEG_INF
    remaining[stop - 1, states - block] = 0.0
    for a in range(stop - 1):
        for x in range(states - 1, -1, -1):
            if not exists(a, x, stop, states - block):
                continue
            if offsets[x] == block:
                for c in range(a + 1, stop):
                    remaining[a, x] = log_add(remaining[a, x], np.float64(chain[a, lefts[x], c]))
            for move in range(first_move[x], first_move[x + 1]):
                rule, y = moves[move, 0], moves[move, 1]
                weight = np.float64(prefix[a, rule]) if rule >= 0 else 0.0
                remaining[a, x] = log_add(remaining[a, x], weight + remaining[a, y])


@jit
def join_continuations(front, stop, best, first, second, q, avoid, given, scores):
    """`scores[L]`: the best derivation of L tokens whose first `given` are those of the front."""
    for a in range(stop):
        for x in range(front.shape[1]):
            if front[a, x] > NEG_INF:
                for r in range(1, scores.shape[0] - given):
                    value = front[a, x] + value_at(best, first, second, a, x, q, r, avoid)
                    scores[given + r] = max(scores[given + r], value)


@jit
def best_join(front, stop, best, first, second, q, avoid, rest):
    """Node and state that emit the next token in the best derivation with `rest` more tokens."""
    value, node, state = NEG_INF, NOWHERE, NOWHERE
    for a in range(stop):
        for x in range(front.shape[1]):
            term = front[a, x] + value_at(best, first, second, a, x, q, rest, avoid)
            if term > value:
                value, node, state = term, a, x
    return node, state
