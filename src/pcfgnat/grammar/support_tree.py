"""The support tree: which symbols a right-heavy grammar has, and which children each may take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

MAX_PREFIX_DEPTH = 16  # a tree that is read from a file may say anything


class PrefixRule(NamedTuple):
    """`V_parent → V_left token V_right` inside a prefix tree, as in-order offsets; left 0 is ε."""

    parent: int
    left: int
    right: int


@dataclass(frozen=True)
class SupportTree:
    """Symbols and rules of the right-heavy PCFG (paper, section 3.1.2), as integers.

    Node 0 derives ε. Main-chain node `k` is symbol `1 + k·d` with `d = 2**prefix_depth`; in front of it, for
    k ≥ 1, stand the `d - 1` symbols of its prefix tree, a complete binary tree numbered in-order by the
    offsets `1 … d-1`. Because the numbering is in-order, the tokens of every derivation are emitted by
    strictly increasing symbols.
    """

    chain_length: int
    prefix_depth: int

    def __post_init__(self) -> None:
        if self.chain_length < 2:
            raise ValueError(
                f"chain_length must be at least 2 (a root and a last node), got {self.chain_length}"
            )
        if self.prefix_depth < 0:
            raise ValueError(f"prefix_depth must not be negative, got {self.prefix_depth}")
        if self.prefix_depth > MAX_PREFIX_DEPTH:
            raise ValueError(f"prefix_depth must be at most {MAX_PREFIX_DEPTH}, got {self.prefix_depth}")

    @property
    def block(self) -> int:
        """`d`: the symbols of a main-chain node and its prefix tree, and the most tokens that they emit."""
        return 1 << self.prefix_depth

    @property
    def num_nodes(self) -> int:
        """`m`: the number of symbols, the ε symbol included."""
        return (self.chain_length - 1) * self.block + 2

    @property
    def min_length(self) -> int:
        """Tokens of the shortest sentence: bos from the root and eos from the last node."""
        return 2

    @property
    def max_length(self) -> int:
        """Tokens of the longest sentence: root and last node emit one each, all others `d`."""
        return (self.chain_length - 2) * self.block + 2

    def chain_node(self, k: int) -> int:
        """Symbol of main-chain node `k`; 0 is the root, `chain_length - 1` the last."""
        if not 0 <= k < self.chain_length:
            raise IndexError(f"chain node must be in 0 … {self.chain_length - 1}, got {k}")
        return 1 + k * self.block

    def locate(self, node: int) -> tuple[int, int]:
        """Main-chain index of the node's block and its offset there; `d` is the main-chain node itself."""
        if not 1 <= node < self.num_nodes:
            raise IndexError(f"node must be in 1 … {self.num_nodes - 1}, got {node}")
        k, offset = divmod(node - 2, self.block)  # node 1, the root, is the last of block 0
        return k + 1, offset + 1

    def locate_all(self, nodes: Sequence[int]) -> list[tuple[int, int]]:
        """Locate several nodes."""
        if nodes and not (min(nodes) >= 1 and max(nodes) < self.num_nodes):
            raise IndexError(f"nodes must be in 1 … {self.num_nodes - 1}, got {min(nodes)} … {max(nodes)}")
        block = self.block
        return [(k + 1, offset + 1) for k, offset in (divmod(node - 2, block) for node in nodes)]

    def is_chain(self, node: int) -> bool:
        """Whether the node stands on the main chain."""
        return self.locate(node)[1] == self.block

    def children(self, node: int) -> Iterator[tuple[int, int]]:
        """Yield the legal pairs `(left, right)` of a node; leaves, the last node and node 0 have none."""
        if node == 0:
            return
        k, offset = self.locate(node)
        start = node - offset  # symbol = start + offset inside this block
        if offset < self.block:
            for rule in self.prefix_rules():
                if rule.parent == offset:
                    yield (start + rule.left if rule.left else 0), start + rule.right
            return
        lefts = range(1) if k == 0 else range(self.block)
        for left in lefts:
            for right in range(k + 1, self.chain_length):
                yield (start + left if left else 0), self.chain_node(right)

    def prefix_rules(self) -> tuple[PrefixRule, ...]:
        """Return the rules of one prefix tree, ordered by parent, left, right; leaves have none."""
        return prefix_rules(self.prefix_depth)

    def num_derivations(self, length: int) -> int:
        """Exact number of derivations of a sentence of `length` tokens.

        Between root and last node any subset of the main chain may be used, so the generating function is
        `x² (1 + x P(x))^(C-2)`, where `P` counts what a left child may derive.
        """
        per_node = [1, *prefix_polynomial(self.prefix_depth)]
        counts = [1]
        for _ in range(self.chain_length - 2):
            counts = _multiply(counts, per_node, limit=max(length - 1, 1))
        return counts[length - 2] if 2 <= length < len(counts) + 2 else 0


@lru_cache(maxsize=1024)
def support_tree(chain_length: int, prefix_depth: int) -> SupportTree:
    """Return a tree that is made once for each size."""
    return SupportTree(chain_length, prefix_depth)


def prefix_height(offset: int) -> int:
    """Height of an in-order offset: its number of trailing zero bits; 0 is a leaf."""
    return (offset & -offset).bit_length() - 1


def prefix_subtree(offset: int) -> range:
    """In-order offsets of the complete subtree below `offset`, itself included."""
    reach = (1 << prefix_height(offset)) - 1
    return range(offset - reach, offset + reach + 1)


@lru_cache(maxsize=32)
def prefix_rules(depth: int) -> tuple[PrefixRule, ...]:
    """Return the rules of a prefix tree of this depth, ordered by parent, left, right."""
    rules = []
    for parent in range(1, 1 << depth):
        subtree = prefix_subtree(parent)
        for left in (0, *range(subtree.start, parent)):
            rules += [PrefixRule(parent, left, right) for right in range(parent + 1, subtree.stop)]
    # a leaf has the empty subtree right of it, hence no rule
    return tuple(rules)


def prefix_polynomial(depth: int) -> list[int]:
    """Coefficient w: in how many ways the left child of a main-chain node, ε included, derives w tokens."""
    below = [0]  # all roots of a complete subtree, summed; N_h = 2 N_{h-1} + x (1 + N_{h-1}) N_{h-1}
    for height in range(depth):
        inner = [0, *_multiply([1 + below[0], *below[1:]], below)] if height else [0, 1]
        below = [2 * (below[i] if i < len(below) else 0) + term for i, term in enumerate(inner)]
    return [1 + below[0], *below[1:]]


def _multiply(left: list[int], right: list[int], limit: int | None = None) -> list[int]:
    product = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] += a * b
    return product[:limit]
