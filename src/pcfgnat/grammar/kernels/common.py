"""What the kernels share: which main-chain nodes can stand where, and the values of prefix trees.

Main-chain nodes are visited one by one, all positions at once: a node's spans depend on later nodes only,
so that every rule is read just once. Functions take whole arrays and indices, never slices or tuples of
arrays: numba counts references to those, which costs more than the arithmetic on a short row.
"""

import math

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached

NEG_INF = -math.inf

# Inlined, because numba counts references to arrays at every call that is left.
jit = cached(numba.njit(nogil=True, forceinline=True))
# Sums may be reordered, and so vectorised; NaN and infinity keep their meaning.
jit_sum = cached(numba.njit(nogil=True, forceinline=True, fastmath={"reassoc", "contract", "nsz"}))


@jit
def start_range(a, length, stop, block, any_start):
    """Positions `first … last - 1` at which main-chain node a of `stop`, not the last, can begin.

    It must leave no more tokens than the nodes from a on can derive, nor begin later than those before it
    allow when the root begins at 0; with `any_start` the root may begin anywhere.
    """
    first = max(0, length - 1 - (stop - 1 - a) * block)
    if any_start:
        return first, length - 1
    if a == 0:
        return first, 1
    return max(1, first), min(length - 2, 1 + (a - 1) * block) + 1


@jit
def rest_range(a, length, stop, block, any_start):
    """Positions `first … last - 1` at which the right child of main-chain node a can begin."""
    first = max(1, length - 1 - (stop - 2 - a) * block)
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
def fill_prefix_values(value, prefix, tokens, states, splits, a, length, block, best):
    """`value[q, i]`: prefix state q of main-chain node a deriving from position i on; max if `best`.

    Row 0 is ε and must hold zeros, as it does in fresh memory.
    """
    before, one = 1 + (a - 1) * block, np.uint64(1)  # offset o of the prefix tree is symbol before + o
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:  # inner nodes need a right child, so they derive two tokens at least
            symbol = before + states[q, 0]
            for i in range(np.uint64(length)):
                value[q, i] = tokens[symbol, i]
    previous = 0
    for p in range(splits.shape[0]):
        q, left, right, wide = splits[p, 0], splits[p, 2], splits[p, 3], np.uint64(splits[p, 5])
        weight, symbol = np.float64(prefix[a, splits[p, 1]]), before + splits[p, 4]
        count = np.uint64(max(length - splits[p, 5] - 1, 0))
        if q != previous:  # the first split of a state; all its splits stand together
            for i in range(count):
                value[q, i] = (
                    weight + value[left, i] + tokens[symbol, i + wide] + value[right, i + wide + one]
                )
            for i in range(count, np.uint64(length)):
                value[q, i] = NEG_INF
        else:
            for i in range(count):
                term = weight + value[left, i] + tokens[symbol, i + wide] + value[right, i + wide + one]
                value[q, i] = max(value[q, i], term) if best else log_add(value[q, i], term)
        previous = q
