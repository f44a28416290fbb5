"""Scores of rules and of transitions, from states of nodes: `nn.Links` head by head, mixed by a gate."""

import numpy as np

from pcfgnat.grammar.kernels.exponential import exp_single, log_rough
from pcfgnat.runtimes.native.kernels.attention import transpose
from pcfgnat.runtimes.native.kernels.products import address, jit, multiply, multiply_int8, whole_vectors
from pcfgnat.runtimes.native.kernels.rows import LOWEST, largest_of, softmax

VECTOR = 16
LOW = np.float32(-1e30)  # of a rule that does not exist
LEAST = np.float32(1e-37)  # of a probability, so that no rule that exists becomes impossible


@jit
def vectors(bytes_, scales, first, count, step, packed, linear, positions, out):
    """Write vectors of every `step`-th of some nodes in their roles: from a state, and from a position."""
    multiply_int8(
        count,
        address(bytes_, first, 0),
        bytes_.strides[0] * step,
        address(scales, first, 0),
        4 * step,
        packed,
        linear,
        address(out, 0, 0),
        out.strides[0],
    )
    for row in range(count):
        for i in range(positions.shape[1]):
            out[row, i] += positions[row, i]


@jit
def gates(rows, count, column, heads, gated):
    """Return how much each head counts for each of some nodes."""
    share = np.full((count, heads), np.float32(1.0 / heads), np.float32)
    if gated:
        for row in range(count):
            for h in range(heads):
                share[row, h] = rows[row, column + h]
            softmax(share, row, np.int64(0), heads, np.float32(1.0))
    return share


@jit
def logs(total, row, first, last, out, a, j):
    """Write the logarithms of some probabilities of a row."""
    start = first // VECTOR * VECTOR
    for c in range(start, total.shape[1]):
        total[row, c] = np.float32(log_rough(np.float64(max(total[row, c], LEAST))))
    for c in range(first, last):
        out[a, j, c] = total[row, c]


@jit
def chain_rules(on_chain, left, width, nodes, block, heads, gated, out):
    """Write the scores of all rules of the main chain.

    on_chain: vectors of main-chain nodes as parents and as right children, and their gates
    left:     vectors of nodes off the chain as left children, that of ε first
    """
    head, padded = width // heads, whole_vectors(nodes)
    both, right = np.empty((nodes * block, head), np.float32), np.zeros((head, padded), np.float32)
    scores, total = (
        np.empty((nodes * block, padded), np.float32),
        np.zeros((nodes * block, padded), np.float32),
    )
    own = np.empty(nodes * block, np.float32)
    share = gates(on_chain, nodes, 2 * width, heads, gated)
    for h in range(heads):
        for a in range(nodes):
            for j in range(block):
                place, row = left_place(a, j, block), a * block + j
                product = np.float32(0.0)
                for e in range(head):
                    q, k = on_chain[a, h * head + e], left[place, h * head + e]
                    both[row, e] = q + k
                    product += q * k
                own[row] = product
        transpose(on_chain, (0, nodes), width + h * head, right)
        multiply(
            nodes * block, head, padded, address(both, 0, 0), both.strides[0], address(right, 0, 0),
            right.strides[0], address(scores, 0, 0), scores.strides[0],
        )  # fmt: skip
        for a in range(nodes - 1):
            add_head(scores, own, a, 1 if a == 0 else block, block, nodes, share[a, h], total)
    for a in range(nodes - 1):
        for j in range(1 if a == 0 else block):
            logs(total, a * block + j, a + 1, nodes, out, a, j)


@jit
def left_place(a, j, block):
    """Return where the j-th left child of main-chain node a stands among nodes off the chain; ε is first."""
    return (a - 1) * (block - 1) + j if a > 0 and j > 0 else 0


@jit
def add_head(scores, own, a, lefts, block, nodes, share, total):
    """Add one head's probabilities of the rules of a node, normalised over all of its pairs of children.

    Whole vectors are looked at: what stands in them beside right children of the node is hidden.
    """
    first, start, stop = a * block, (a + 1) // VECTOR * VECTOR, scores.shape[1]
    most = LOW
    for j in range(lefts):
        for c in range(start, a + 1):
            scores[first + j, c] = LOW
        for c in range(nodes, stop):
            scores[first + j, c] = LOW
        most = max(most, largest_of(scores, first + j, start, stop) + own[first + j])
    mass = np.float32(0.0)
    for j in range(lefts):
        below = own[first + j] - most
        for c in range(start, stop):
            value = exp_single(max(scores[first + j, c] + below, LOWEST))
            scores[first + j, c] = value
            mass += value
    factor = share / mass
    for j in range(lefts):
        for c in range(start, stop):
            total[first + j, c] += scores[first + j, c] * factor


@jit
def transitions(vectors_, nodes, width, heads, gated, out):
    """Write the scores of all transitions of a graph, from each vertex to later ones."""
    head, padded = width // heads, whole_vectors(nodes)
    right = np.zeros((head, padded), np.float32)
    scores, total = np.empty((nodes, padded), np.float32), np.zeros((nodes, padded), np.float32)
    own = np.zeros(nodes, np.float32)
    share = gates(vectors_, nodes, 2 * width, heads, gated)
    for h in range(heads):
        transpose(vectors_, (0, nodes), width + h * head, right)
        multiply(
            nodes, head, padded, address(vectors_, 0, h * head), vectors_.strides[0], address(right, 0, 0),
            right.strides[0], address(scores, 0, 0), scores.strides[0],
        )  # fmt: skip
        for a in range(nodes - 1):
            add_head(scores, own, a, 1, 1, nodes, share[a, h], total)
    for a in range(nodes - 1):
        logs(total, a, a + 1, nodes, out, a, 0)


@jit
def prefix_rules(others, rules, nodes, block, width, heads, gated, out):
    """Write the scores of rules inside prefix trees.

    others: vectors of nodes off the chain as left children, parents and right children, and their gates
    rules:  parent, left and right child of each rule as places in a tree; those of a parent stand together
    """
    head = width // heads
    scores = np.empty((1, len(rules)), np.float32)
    for a in range(1, nodes):
        first = 0
        while first < len(rules):
            last = first + 1
            while last < len(rules) and rules[last, 0] == rules[first, 0]:
                last += 1
            parent = left_place(a, rules[first, 0], block)
            share = gates(others[parent : parent + 1], np.int64(1), 3 * width, heads, gated)
            for r in range(first, last):
                out[a, r] = np.float32(0.0)
            for h in range(heads):
                for r in range(first, last):
                    left, right = left_place(a, rules[r, 1], block), left_place(a, rules[r, 2], block)
                    total = np.float32(0.0)
                    for e in range(h * head, (h + 1) * head):
                        q, k, c = others[parent, width + e], others[left, e], others[right, 2 * width + e]
                        total += (q + k) * c + q * k
                    scores[0, r] = total
                softmax(scores, np.int64(0), first, last, np.float32(1.0))
                for r in range(first, last):
                    out[a, r] += scores[0, r] * share[0, h]
            for r in range(first, last):
                out[a, r] = np.float32(log_rough(np.float64(max(out[a, r], LEAST))))
            first = last
