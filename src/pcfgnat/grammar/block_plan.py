"""The grammar as a chain of emissions: which node emits next, given the one that has just emitted.

A prefix tree is finite, so what remains to be done inside a main-chain node's block, while its tokens are
emitted from left to right, is one of a few lists of pending tasks. Each list that begins with an emission is
a state here. A rule's probability enters where its right child is chosen, after the emission of its node; the
left child, which is chosen first, is part of the pending list until then. Every derivation is one path.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pcfgnat.grammar.support_tree import prefix_height, prefix_rules

# ("derive", offset), ("emit", offset), ("right", offset, left) or ("chain", left): emit the main-chain node
Task = tuple[str, int] | tuple[str, int, int]
Pending = tuple[Task, ...]


@dataclass(frozen=True)
class BlockPlan:
    """States of one block, ordered by the offset that they emit; a state's successors come behind it.

    offsets: `[X]` what the state emits; `d` is the main-chain node itself
    lefts:   `[X]` the left child that the main-chain node has taken
    moves:   `[M, 2]` rule (-1: none, of probability 1) and following state inside the block, by state
    first:   `[X + 1]` state x has the moves `first[x] … first[x + 1] - 1`; main-chain nodes have none
    entries: `[E]` the states that may come first in a block
    bottoms: `[d]` the state that emits the main-chain node, by its left child
    """

    offsets: NDArray[np.int64]
    lefts: NDArray[np.int64]
    moves: NDArray[np.int64]
    first: NDArray[np.int64]
    entries: NDArray[np.int64]
    bottoms: NDArray[np.int64]

    @property
    def states(self) -> int:
        """Return the number of states of a block."""
        return len(self.offsets)


@lru_cache(maxsize=32)
def block_plan(depth: int) -> BlockPlan:
    """Return the emissions of a block whose prefix tree has this depth."""
    block = 1 << depth
    entries = [state for left in range(block) for state in _expand(_start(left), depth)]
    found, moves = set(entries), dict[Pending, list[tuple[int, Pending]]]()
    waiting = list(entries)
    while waiting:
        state = waiting.pop()
        moves[state] = list(_moves(state, depth))
        fresh = {following for _, following in moves[state]} - found
        found |= fresh
        waiting += fresh
    order = sorted(found, key=lambda state: (_offset(state, block), state))
    index = {state: number for number, state in enumerate(order)}
    flat = [(rule, index[following]) for state in order for rule, following in moves[state]]
    return BlockPlan(
        offsets=np.array([_offset(state, block) for state in order], dtype=np.int64),
        lefts=np.array([state[-1][1] for state in order], dtype=np.int64),
        moves=np.array(flat, dtype=np.int64).reshape(-1, 2),
        first=np.cumsum([0, *(len(moves[state]) for state in order)], dtype=np.int64),
        entries=np.array(sorted(index[state] for state in entries), dtype=np.int64),
        bottoms=np.array([index[(("chain", left),)] for left in range(block)], dtype=np.int64),
    )


def _start(left: int) -> Pending:
    return (("derive", left), ("chain", left)) if left else (("chain", left),)


def _offset(state: Pending, block: int) -> int:
    return block if state[0][0] == "chain" else state[0][1]


def _expand(pending: Pending, depth: int) -> Iterator[Pending]:
    """Yield the lists that a list can become before its next emission: left children are chosen."""
    task, rest = pending[0], pending[1:]
    if task[0] != "derive":
        yield pending
        return
    offset = task[1]
    if prefix_height(offset) == 0:
        yield (("emit", offset), *rest)
        return
    for left in sorted({rule.left for rule in prefix_rules(depth) if rule.parent == offset}):
        own: Pending = (("emit", offset), ("right", offset, left), *rest)
        yield from _expand((("derive", left), *own) if left else own, depth)


def _moves(state: Pending, depth: int) -> Iterator[tuple[int, Pending]]:
    """Yield rule and following state of each way on, once the state has emitted."""
    rest = state[1:]
    if not rest:
        return
    if rest[0][0] != "right":
        yield -1, rest
        return
    for number, rule in enumerate(prefix_rules(depth)):
        if (rule.parent, rule.left) == rest[0][1:]:
            yield from ((number, state) for state in _expand((("derive", rule.right), *rest[1:]), depth))
