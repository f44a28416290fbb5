"""What the kernels share: which main-chain nodes can stand where, and the values of prefix trees.

All tables have positions as their last axis, and main-chain nodes are visited one by one: a node's spans depend on
later nodes only, so each rule is read once and the inner loops run along positions.
"""

import math

import numba
import numpy as np

NEG_INF = -math.inf

jit = numba.njit(nogil=True, cache=True)
# Sums may be reordered, and so vectorised; NaN and infinity keep their meaning.
jit_sum = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})


@jit
def derivable(length, chain_length, block):
    """Whether a sentence of this length has a derivation at all."""
    return 2 <= length <= (chain_length - 2) * block + 2


@jit
def start_range(a, length, chain_length, block, any_start):
    """Positions `first … stop - 1` at which main-chain node a, not the last, can begin.

    It must leave no more tokens than the nodes from a on can derive, nor begin later than those before it
    allow, when the root begins at 0; with `any_start` the root may begin anywhere.
    """
    first = max(0, length - 1 - (chain_length - 1 - a) * block)
    if any_start:
        return first, length - 1
    if a == 0:
        return first, 1
    return max(1, first), min(length - 2, 1 + (a - 1) * block) + 1


@jit
def rest_range(a, length, chain_length, block, any_start):
    """Positions `first … stop - 1` at which the right child of main-chain node a can begin."""
    first = max(1, length - 1 - (chain_length - 2 - a) * block)
    if any_start:
        return first, length
    if a == 0:
        return first, 2
    return max(2, first), min(length - 1, 1 + a * block) + 1


@jit
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    if b == NEG_INF:
        return a
    return a + math.log1p(math.exp(b - a))


@jit
def fill_prefix_values(value, prefix, tokens, states, splits, length, top, best):
    """`value[q, i]`: prefix state q deriving from position i on; max if `best`.

    prefix `[R]` and tokens `[m, n]` are those of one main-chain node; `top` is its symbol less `d`, so that offset o
    of its prefix tree is symbol `top + o`.
    """
    value[0, :length] = 0.0
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:  # only leaves derive one token: inner nodes need a right child
            for i in range(length):
                value[q, i] = tokens[top + states[q, 0], i]
        else:
            value[q, :length] = NEG_INF
    for p in range(splits.shape[0]):
        q, rule, left, right, offset, wide = splits[p]
        weight = np.float64(prefix[rule])
        for i in range(length - wide - 1):
            term = weight + value[left, i] + tokens[top + offset, i + wide] + value[right, i + wide + 1]
            value[q, i] = max(value[q, i], term) if best else log_add(value[q, i], term)
