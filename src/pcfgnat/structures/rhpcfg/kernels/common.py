"""What the kernels share: a sentence and its tables, which nodes can stand where, and prefix trees.

Main-chain nodes are visited one by one, all positions at once: a node's spans depend on later nodes only,
so that every rule is read just once.
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np

NEG_INF = -math.inf

jit = numba.njit(nogil=True, cache=True)
# Sums may be reordered, and so vectorised; NaN and infinity keep their meaning.
jit_sum = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})


class Sentences(NamedTuple):
    """A batch: rules, tokens and true sizes; and, the same for all, the plan of a prefix tree."""

    chain: Any  # [B, C, d, C]
    prefix: Any  # [B, C, R]
    tokens: Any  # [B, m, N]
    chain_lengths: Any  # [B]
    lengths: Any  # [B]
    states: Any  # [Q, 2]
    splits: Any  # [P, 6]


class Sentence(NamedTuple):
    """One of them."""

    chain: Any  # [C, d, C]
    prefix: Any  # [C, R]
    tokens: Any  # [m, N]
    stop: Any  # number of main-chain nodes
    length: Any  # number of target tokens
    states: Any
    splits: Any


@jit
def pick(batch, b):
    """Sentence b."""
    return Sentence(
        batch.chain[b],
        batch.prefix[b],
        batch.tokens[b],
        batch.chain_lengths[b],
        batch.lengths[b],
        batch.states,
        batch.splits,
    )


@jit
def start_range(sentence, a, any_start):
    """Positions `first … last - 1` at which main-chain node a, not the last, can begin.

    It must leave no more tokens than the nodes from a on can derive, nor begin later than those before it
    allow when the root begins at 0; with `any_start` the root may begin anywhere.
    """
    block, length = sentence.chain.shape[1], sentence.length
    first = max(0, length - 1 - (sentence.stop - 1 - a) * block)
    if any_start:
        return first, length - 1
    if a == 0:
        return first, 1
    return max(1, first), min(length - 2, 1 + (a - 1) * block) + 1


@jit
def rest_range(sentence, a, any_start):
    """Positions `first … last - 1` at which the right child of main-chain node a can begin."""
    block, length = sentence.chain.shape[1], sentence.length
    first = max(1, length - 1 - (sentence.stop - 2 - a) * block)
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
def fill_prefix_values(value, sentence, a, best):
    """`value[q, i]`: prefix state q of main-chain node a deriving from position i on; max if `best`.

    Row 0 is ε and must hold zeros, as it does in fresh memory.
    """
    states, splits, tokens, length = sentence.states, sentence.splits, sentence.tokens, sentence.length
    before = 1 + (a - 1) * sentence.chain.shape[1]  # offset o of the prefix tree is symbol before + o
    for q in range(1, states.shape[0]):
        if states[q, 1] == 1:  # only leaves derive one token: inner nodes need a right child
            for i in range(length):
                value[q, i] = tokens[before + states[q, 0], i]
        else:
            value[q, :length] = NEG_INF
    for p in range(splits.shape[0]):
        q, rule, left, right, offset, wide = splits[p]
        weight = np.float64(sentence.prefix[a, rule])
        for i in range(length - wide - 1):
            term = weight + value[left, i] + tokens[before + offset, i + wide] + value[right, i + wide + 1]
            value[q, i] = max(value[q, i], term) if best else log_add(value[q, i], term)
