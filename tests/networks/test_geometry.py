"""Geometry of the canvas: the same for torch and numpy, and what its formulas say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.grammar.canvas import (
    GRAMMAR,
    GRAPH,
    Framing,
    Geometry,
    legal_rules,
    off_chain,
    opposite,
    places,
)
from pcfgnat.structures import SupportTree
from tests.support.zoo import made

GEOMETRIES = [
    *[Geometry("grammar", upsampling, depth) for upsampling in (1, 4) for depth in (0, 1, 3)],
    *[Geometry("graph", upsampling) for upsampling in (1, 2, 8)],
    *[Geometry("slots", upsampling) for upsampling in (1, 3)],
]
LENGTHS = [1, 2, 3, 7, 40]


def both(function: Callable[..., Any], *vectors: list[int], **others: int) -> list[Any]:
    """Return what a function says of the same vectors in numpy, after torch has said the same."""
    tensor = function(*map(torch.tensor, vectors), **others)
    array = function(*map(np.array, vectors), **others)
    assert isinstance(tensor, torch.Tensor)
    assert isinstance(array, np.ndarray)
    assert tensor.numpy().dtype == array.dtype
    assert np.array_equal(tensor.numpy(), array)
    found: list[Any] = array.tolist()
    return found


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_sizes_are_the_same_for_numpy_and_torch_and_numbers(geometry: Geometry) -> None:
    canvases = both(geometry.canvas_lengths, LENGTHS)
    assert canvases == [geometry.longest_canvas(length) for length in LENGTHS]
    chains = both(geometry.chain_lengths, canvases)
    if geometry.structure == "grammar":
        trees = [SupportTree(geometry.upsampling * n + 1, geometry.prefix_depth) for n in LENGTHS]
        assert canvases == [tree.num_nodes for tree in trees]
        assert chains == [tree.chain_length for tree in trees]
    else:
        expected = [geometry.upsampling * length for length in LENGTHS]
        if geometry.structure == "graph":
            expected = [max(size, 2) for size in expected]
        assert canvases == chains == expected
    assert geometry.nodes_per_token == geometry.upsampling * geometry.block


def test_what_nodes_emit() -> None:
    assert (GRAMMAR.first_node, GRAMMAR.unemitted, GRAMMAR.blank) == (1, 0, None)
    assert (GRAPH.first_node, GRAPH.unemitted, GRAPH.blank) == (0, 0, None)
    assert Framing(ends=False, blank=0).unemitted == 2
    found = {name: made(name).framing for name in ("pcfg", "dag", "ctc", "slots")}
    collapsing = Framing(ends=False, blank=0)
    assert found == {"pcfg": GRAMMAR, "dag": GRAPH, "ctc": collapsing, "slots": Framing()}


def test_nodes_are_spread_evenly_over_the_source() -> None:
    sizes, lengths = [3, 2, 116], [14, 6, 698]
    for row, size, length in zip(both(opposite, [*range(698)], sizes, lengths), sizes, lengths, strict=True):
        assert row[:length] == [node * size // length for node in range(length)]
        assert set(row[length:]) <= {size - 1}  # padding, but never beyond the sentence


@given(st.integers(0, 3), st.lists(st.integers(2, 6), min_size=1, max_size=3))
def test_rules_are_those_of_the_support_tree(depth: int, chain_lengths: list[int]) -> None:
    block, longest = 1 << depth, max(chain_lengths)
    legal = both(legal_rules, [*range(longest)], [*range(block)], chain_lengths)
    for table, size in zip(legal, chain_lengths, strict=True):
        tree = SupportTree(size, depth)
        expected = set()
        for k in range(size):
            node = tree.chain_node(k)
            for left, right in tree.children(node):
                expected.add((k, left - node + block if left else 0, (right - 1) // block))
        found = {(k, j, r) for k, lefts in enumerate(table) for j, row in enumerate(lefts) for r in rows(row)}
        assert found == expected


def rows(row: list[bool]) -> list[int]:
    return [place for place, legal in enumerate(row) if legal]


@pytest.mark.parametrize(("chain_length", "depth"), [(1, 0), (4, 0), (1, 2), (5, 1), (4, 2), (3, 3)])
def test_symbols_off_the_main_chain_have_their_places(chain_length: int, depth: int) -> None:
    tree, block = SupportTree(max(chain_length, 2), depth), 1 << depth
    chain_length = tree.chain_length
    count = 1 + (chain_length - 1) * (block - 1)
    others = both(off_chain, [*range(count)], block=block)
    assert others == [node for node in range(tree.num_nodes) if node == 0 or not tree.is_chain(node)]
    place = both(places, [*range(chain_length)], [*range(block)])
    for k, own in enumerate(place):
        assert own[0] == 0  # no child
        for offset in range(1, block):
            expected = 0 if k == 0 else tree.chain_node(k) - block + offset
            assert others[own[offset]] == expected
