"""The recursion inside a prefix tree, unrolled into integer tables that a kernel can loop over."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pcfgnat.grammar.support_tree import prefix_height, prefix_rules


@dataclass(frozen=True)
class PrefixPlan:
    """States `(offset, width)`: a prefix node deriving so many tokens. State 0 is ε.

    states: `[Q, 2]` offset and width
    splits: `[P, 6]` (state, rule, left state, right state, parent's offset, left width), such that
            `value[state, i] = ⊕ rule ⊗ value[left, i] ⊗ token[parent, i+width] ⊗ value[right, i+width+1]`;
            children come before their parents
    """

    states: NDArray[np.int64]
    splits: NDArray[np.int64]


@lru_cache(maxsize=32)
def prefix_plan(depth: int) -> PrefixPlan:
    """Unroll the prefix tree of this depth."""
    index = {(0, 0): 0}
    splits: list[tuple[int, int, int, int, int, int]] = []
    for parent in sorted(range(1, 1 << depth), key=prefix_height):
        if prefix_height(parent) == 0:
            index[parent, 1] = len(index)
            continue
        found: dict[int, list[tuple[int, int, int, int]]] = {}
        for number, rule in enumerate(prefix_rules(depth)):
            if rule.parent == parent:
                for left_width in _widths(index, rule.left):
                    for right_width in _widths(index, rule.right):
                        split = (
                            number,
                            index[rule.left, left_width],
                            index[rule.right, right_width],
                            left_width,
                        )
                        found.setdefault(left_width + 1 + right_width, []).append(split)
        for width in sorted(found):
            state = index[parent, width] = len(index)
            splits += [(state, rule_, left, right, parent, wide) for rule_, left, right, wide in found[width]]
    states = np.array(list(index), dtype=np.int64)
    return PrefixPlan(states, np.array(splits, dtype=np.int64).reshape(-1, 6))


def _widths(index: dict[tuple[int, int], int], offset: int) -> list[int]:
    return [width for known, width in index if known == offset]
