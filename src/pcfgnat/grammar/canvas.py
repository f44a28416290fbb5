"""Geometry of the canvas, once for torch and numpy: its size, its rules, what stands opposite to what.

Functions take index vectors of either library and use operators that both have, so that a network and an
exported graph can never disagree, and nothing leaves the device that it is on.
"""

from dataclasses import dataclass
from typing import Any, Literal

# A vector or table of integers or booleans, of torch or of numpy; results are of the same library.
Array = Any


@dataclass(frozen=True)
class Framing:
    """Which tokens of a sentence `bos … eos` the nodes of a canvas emit.

    ends:       whether nodes emit bos and eos too, or only what stands between them
    first_node: the node that emits bos
    blank:      a token that stands for nothing, where nodes may emit one
    """

    ends: bool = True
    first_node: int = 0
    blank: int | None = None

    @property
    def unemitted(self) -> int:
        """How many tokens of a sentence no node emits."""
        return 0 if self.ends else 2


# Predicted lengths are classes: that of a target as long as its source, and how many there are.
SAME_LENGTH, LENGTH_CLASSES = 128, 256

GRAMMAR = Framing(first_node=1)
GRAPH = Framing()


@dataclass(frozen=True)
class Geometry:
    """A canvas whose size follows from the source.

    structure:    a grammar (node 0 derives ε), a graph of vertices, or slots that collapse
    upsampling:   λ, nodes (of the main chain) per source token
    prefix_depth: l, depth of the prefix trees of a grammar
    """

    structure: Literal["grammar", "graph", "slots"]
    upsampling: int
    prefix_depth: int = 0

    @property
    def block(self) -> int:
        """`d = 2**l`, symbols per main-chain node."""
        return 1 << self.prefix_depth

    @property
    def nodes_per_token(self) -> int:
        """Nodes of the canvas per source token, apart from a constant."""
        return self.upsampling << self.prefix_depth

    def canvas_lengths(self, source_lengths: Array) -> Array:
        """Return the number of nodes of each sentence: m = λ·Lx·d + 2 of a grammar, else λ·Lx."""
        nodes = source_lengths * self.nodes_per_token
        if self.structure == "grammar":
            return nodes + 2
        return nodes + (nodes < 2) if self.structure == "graph" else nodes  # a path has two ends

    def longest_canvas(self, max_source_length: int) -> int:
        """Return the number of nodes that the longest source needs."""
        return int(self.canvas_lengths(max_source_length))

    def chain_lengths(self, canvas_lengths: Array) -> Array:
        """Return the number of main-chain nodes of each canvas; every node of a graph is one."""
        return (canvas_lengths - 2) // self.block + 1 if self.structure == "grammar" else canvas_lengths


def opposite(node: Array, source_lengths: Array, canvas_lengths: Array) -> Array:
    """Return `[B, m]`: the source position that each node stands opposite to, when both are spread evenly."""
    sources = source_lengths[:, None]
    place = node * sources // canvas_lengths[:, None]
    beyond = place >= sources  # nodes of padding
    return place * ~beyond + (sources - 1) * beyond


def seen_nodes(asked: Array, node: Array, canvas_lengths: Array) -> Array:
    """Return `[B, m, m]`: whether a node sees the token of another, from what is asked for.

    Never its own token or padding, always those of the first and the last node.
    """
    lengths = canvas_lengths[:, None]
    ends = (node == 0) | (node == lengths - 1)
    return (asked & (node != node[:, None]) & (node < lengths)[:, None]) | ends[:, None]


def legal_rules(node: Array, offset: Array, chain_lengths: Array) -> Array:
    """Return `[B, C, d, C]`: rules of the main chain, from `node = 0 … C-1` and `offset = 0 … d-1`.

    The right child is later and exists; the root has no left child.
    """
    later = node > node[:, None]
    exists = node < chain_lengths[:, None]
    left = (node[:, None] > 0) | (offset == 0)
    return later[:, None] & exists[:, None, None] & left[:, :, None]


def off_chain(index: Array, block: int) -> Array:
    """Return the symbols that are not on the main chain: that of ε, then those of the prefix trees.

    There are `1 + (C - 1)·(d - 1)` of them, so that is how far `index = 0, 1, …` goes.
    """
    tree, offset = (index - 1) // max(block - 1, 1), (index - 1) % max(block - 1, 1)
    return (tree * block + offset + 2) * (index > 0)


def places(node: Array, offset: Array) -> Array:
    """Return `[C, d]`: where each prefix tree's symbols are among those off the main chain; ε is at 0."""
    k = node[:, None]
    return ((k - 1) * (len(offset) - 1) + offset) * ((offset > 0) & (k > 0))
