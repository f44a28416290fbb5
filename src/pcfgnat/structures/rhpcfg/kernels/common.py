"""What the kernels share: which main-chain nodes can stand where, and the values of prefix trees."""

import math

import numba
import numpy as np

NEG_INF = -math.inf

jit = numba.njit(nogil=True, cache=True)
# Sums may be reordered, and so vectorised; NaN and infinity keep their meaning.
jit_sum = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})


@jit
def lowest_node(start, block):
    """Lowest main-chain node that can begin at `start` when the root begins at 0."""
    return 0 if start == 0 else 1 + (start + block - 2) // block


@jit
def highest_node(rest, chain_length, block):
    """Highest main-chain node that can derive the `rest` tokens up to the end."""
    return chain_length - 1 - (rest + block - 2) // block


@jit
def lowest_parent(start, block):
    """Lowest main-chain node whose right child can begin at `start`: it emits token `start - 1`."""
    return 0 if start <= 1 else lowest_node(max(start - block, 1), block)


@jit
def derivable(length, chain_length, block):
    """Whether a sentence of this length has a derivation at all."""
    return 2 <= length <= (chain_length - 2) * block + 2


@jit
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    if b == NEG_INF:
        return a
    return a + math.log1p(math.exp(b - a))


@jit
def prefix_symbol(k, offset, block):
    """Symbol at an in-order offset of the prefix tree of main-chain node k."""
    return 1 + (k - 1) * block + offset


@jit
def fill_prefix_values(value, prefix, tokens, states, splits, length, chain_length, block, best):
    """`value[q, k, i]`: prefix state q of main-chain node k, deriving from position i on; max if `best`."""
    value[0] = 0.0
    value[1:] = NEG_INF
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:  # only leaves derive one token: inner nodes need a right child
            for k in range(1, chain_length - 1):
                symbol = prefix_symbol(k, states[q, 0], block)
                for i in range(length):
                    value[q, k, i] = tokens[symbol, i]
    for p in range(splits.shape[0]):
        q, rule, left, right, offset, wide = splits[p]
        for k in range(1, chain_length - 1):
            weight = np.float64(prefix[k, rule])
            symbol = prefix_symbol(k, offset, block)
            for i in range(length - wide - 1):
                term = weight + value[left, k, i] + tokens[symbol, i + wide] + value[right, k, i + wide + 1]
                if best:
                    value[q, k, i] = max(value[q, k, i], term)
                else:
                    value[q, k, i] = log_add(value[q, k, i], term)
