"""Scores of rules and of transitions, from states of nodes: `nn.Links` head by head, mixed by a gate."""

import numpy as np

from pcfgnat.runtimes.native.kernels.memory import (
    aligned,
    clear,
    copy,
    long_at,
    put_single,
    single_at,
)
from pcfgnat.runtimes.native.kernels.operations import operation
from pcfgnat.runtimes.native.kernels.products import (
    COLUMNS,
    LANES,
    jit,
    linear,
    multiply,
    transpose,
    whole_vectors,
)
from pcfgnat.runtimes.native.kernels.row_code import HIDDEN
from pcfgnat.runtimes.native.kernels.rows import CODE

_pair, _hide, _exp, _add, _log = CODE.pair, CODE.hide, CODE.exp, CODE.add, CODE.log
_softmax, _sum = CODE.softmax, CODE.sum
LOW = np.float32(HIDDEN)
LEAST = np.float32(1e-37)  # of a probability, so that no rule that exists becomes impossible
ONE = np.float32(1.0)


@operation()
def node_vectors(ops, count, rows, row_stride, scales, scale_stride, weight, positions, out):
    """Write vectors of some nodes in their roles: from a state, and from a position; both are padded."""
    columns = long_at(weight + COLUMNS)
    linear(ops, count, rows, row_stride, scales, scale_stride, weight, out, 4 * columns)
    for row in range(count):
        own = out + 4 * columns * row
        _sum(own, positions + 4 * columns * row, own, columns // LANES)


@jit
def write_share(vector, heads, gate, share):
    """Write how much each head counts for a node, to a row of whole vectors; `gate` 0: all alike."""
    for h in range(heads):
        put_single(share + 4 * h, single_at(vector + gate + 4 * h) if gate else np.float32(0.0))
    _softmax(share, heads, whole_vectors(heads) // LANES, ONE)


@jit
def left_place(a, j, block):
    """Return where the j-th left child of main-chain node a stands among nodes off the chain; ε is first."""
    return (a - 1) * (block - 1) + j if a > 0 and j > 0 else 0


@jit
def rules_layout(width, heads, nodes, block):
    """Return where things lie in the memory that rules are scored in, and how large it is."""
    padded, rows = whole_vectors(nodes), nodes * block
    both = aligned(4 * width * padded)
    scores = both + aligned(4 * (width // heads) * rows)
    total = scores + aligned(4 * padded * rows)
    own = total + aligned(4 * padded * rows)
    share = own + aligned(4 * rows)
    return both, scores, total, own, share, share + aligned(4 * whole_vectors(heads) * nodes)


@operation()
def score_rules(
    ops, width, heads, gated, nodes, block, parents, parent_stride, left, left_stride, out, longest, work
):  # fmt: skip
    """Write the scores of all rules of a main chain, or of all transitions of a graph.

    parents: vectors of nodes as parents and as right children, and their gates; room for whole vectors
    left:    vectors of nodes off the chain as left children, that of ε first; 0: a graph, which has none
    out:     a table `[longest, block, longest]`, of which only what is a rule is written
    """
    head, padded = width // heads, whole_vectors(nodes)
    both, scores, total, own, share, _ = rules_layout(width, heads, nodes, block)
    right, both, scores, total = work, work + both, work + scores, work + total
    own, share, row, shared = work + own, work + share, 4 * padded, 4 * whole_vectors(heads)
    transpose(ops, nodes, width, parents + 4 * width, parent_stride, right, row)
    clear(total, row * nodes * block)
    for a in range(nodes):
        write_share(parents + parent_stride * a, heads, 8 * width if gated else 0, share + shared * a)
    for h in range(heads):
        rows, row_stride = parents + 4 * h * head, parent_stride
        if left:
            rows, row_stride = both, 4 * head
            for a in range(nodes - 1):
                query = parents + parent_stride * a + 4 * h * head
                for j in range(block):
                    child = left + left_stride * left_place(a, j, block) + 4 * h * head
                    place = a * block + j
                    product = _pair(query, child, both + 4 * head * place, head // LANES)
                    put_single(own + 4 * place, product)
        multiply(
            ops, (nodes - 1) * block, head, padded, rows, row_stride, right + h * head * row, row, scores, row
        )
        for a in range(nodes - 1):
            add_head(
                scores + row * a * block, own + 4 * a * block if left else 0, a, nodes,
                1 if a == 0 else block, padded, single_at(share + shared * a + 4 * h),
                total + row * a * block,
            )  # fmt: skip
    for a in range(nodes - 1):
        for j in range(1 if a == 0 else block):
            source, start = total + row * (a * block + j), (a + 1) // LANES
            _log(source + 4 * LANES * start, LEAST, padded // LANES - start)
            target = out + 4 * longest * (a * block + j)
            copy(target + 4 * (a + 1), source + 4 * (a + 1), 4 * (nodes - a - 1))


@jit
def add_head(scores, own, a, nodes, lefts, padded, share, total):
    """Add one head's probabilities of the rules of a node, normalised over all of its pairs of children.

    Whole vectors are looked at: what stands in them beside right children of the node is hidden.
    """
    start = (a + 1) // LANES
    first, steps, row, most, mass = (
        4 * LANES * start,
        padded // LANES - start,
        4 * padded,
        LOW,
        np.float32(0.0),
    )
    for j in range(lefts):
        found = _hide(scores + row * j + first, a - LANES * start, nodes - LANES * start, steps)
        if own:
            found += single_at(own + 4 * j)
        most = max(most, found)
    for j in range(lefts):
        below = single_at(own + 4 * j) - most if own else -most
        mass += _exp(scores + row * j + first, below, steps)
    for j in range(lefts):
        _add(total + row * j + first, scores + row * j + first, share / mass, steps)


@operation()
def prefix_rules(
    ops, width, heads, gated, nodes, block, others, stride, rules, count, out, work
):  # fmt: skip
    """Write the scores of rules inside prefix trees to a table `[longest, count]`.

    others: vectors of nodes off the chain as left children, parents and right children, and their gates
    rules:  parent, left and right child of each rule as places in a tree; those of a parent stand together
    work:   room for the shares of heads and the scores of all rules, in whole vectors
    """
    head, scores = width // heads, work + 4 * whole_vectors(heads)
    for a in range(1, nodes):
        first, target = 0, out + 4 * count * a
        while first < count:
            above, last = long_at(rules + 24 * first), first + 1
            while last < count and long_at(rules + 24 * last) == above:
                last += 1
            parent = others + stride * left_place(a, above, block)
            write_share(parent, heads, 12 * width if gated else 0, work)
            for r in range(first, last):
                put_single(target + 4 * r, np.float32(0.0))
            for h in range(heads):
                for r in range(first, last):
                    left = others + stride * left_place(a, long_at(rules + 24 * r + 8), block)
                    right = others + stride * left_place(a, long_at(rules + 24 * r + 16), block)
                    score = np.float32(0.0)
                    for e in range(h * head, (h + 1) * head):
                        q, k = single_at(parent + 4 * (width + e)), single_at(left + 4 * e)
                        score += (q + k) * single_at(right + 4 * (2 * width + e)) + q * k
                    put_single(scores + 4 * (r - first), score)
                _softmax(scores, last - first, whole_vectors(last - first) // LANES, ONE)
                for r in range(first, last):
                    part = single_at(scores + 4 * (r - first)) * single_at(work + 4 * h)
                    put_single(target + 4 * r, single_at(target + 4 * r) + part)
            first = last
        for r in range(count):
            place = target + 4 * r
            put_single(place, np.float32(np.log(max(single_at(place), LEAST))))
