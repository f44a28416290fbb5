"""Draw the support tree of the grammar's README: `python docs/draw_support_tree.py` writes the SVG there."""

import math
from pathlib import Path

from pcfgnat.grammar.support_tree import prefix_height
from pcfgnat.structures import ParseTree, SupportTree

TARGET = Path(__file__).parents[1] / "src/pcfgnat/structures/rhpcfg/support_tree.svg"
TREE = SupportTree(chain_length=4, prefix_depth=2)  # Lx = 3, λ = 1, l = 2
WORDS = {1: "You", 3: "are", 4: "gonna", 5: "need", 7: "a", 8: "bigger", 9: "boat", 13: "."}

STEP, MARGIN, TOP, ROW, RADIUS = 60, 40, 66, 80, 17
GREY, CHAIN, PREFIX = "#7d8590", "#2f74d0", "#b8610c"  # middle tones, to be seen on white and on black


def place(node: int) -> tuple[int, int]:
    """Columns follow the in-order index, rows the depth below the main chain."""
    height = prefix_height(TREE.locate(node)[1]) if node else TREE.prefix_depth - 1
    return MARGIN + node * STEP, TOP + ROW * (TREE.prefix_depth - height)


def support_edges() -> list[tuple[int, int]]:
    """Parents and children of the support tree itself."""
    edges = [(1, 0)]
    for k in range(1, TREE.chain_length):
        start = TREE.chain_node(k - 1)
        edges += [(start, start + TREE.block), (start + TREE.block, start + TREE.block // 2)]
        for offset in range(1, TREE.block):
            reach = 1 << prefix_height(offset) >> 1
            if reach:
                edges += [(start + offset, start + offset + way) for way in (-reach, reach)]
    return edges


def parse_edges() -> list[tuple[int, int]]:
    """Parents and children of the derivation."""
    tree = ParseTree(TREE, tuple(WORDS), tuple(range(len(WORDS))))
    pairs = [(i, child) for i, both in enumerate(tree.children) for child in both if child is not None]
    return [(tree.nodes[i], tree.nodes[child]) for i, child in pairs]


def colour(node: int) -> str:
    """Colour of a node, or of the edge that leads to it, in the derivation."""
    return CHAIN if TREE.is_chain(node) else PREFIX


def line(edge: tuple[int, int], stroke: str, width: float) -> str:
    """Draw an edge from circle to circle."""
    (x1, y1), (x2, y2) = (place(node) for node in edge)
    short = RADIUS / math.hypot(x2 - x1, y2 - y1)
    dx, dy = short * (x2 - x1), short * (y2 - y1)
    ends = f'x1="{x1 + dx:.1f}" y1="{y1 + dy:.1f}" x2="{x2 - dx:.1f}" y2="{y2 - dy:.1f}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width}"/>'


def text(x: float, y: float, content: str, fill: str, size: int, anchor: str = "middle") -> str:
    """Write a label."""
    return f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" text-anchor="{anchor}">{content}</text>'


def circle(node: int) -> list[str]:
    """Draw a node with its index: filled where the derivation uses it, dashed where no derivation can."""
    (x, y), used = place(node), node in WORDS
    dash = ' stroke-dasharray="3 4"' if TREE.chain_node(TREE.chain_length - 2) < node and not used else ""
    fill, stroke, ink = (colour(node), colour(node), "#ffffff") if used else ("none", GREY, GREY)
    ring = (
        f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"{dash}/>'
    )
    parts = [ring, text(x, y + 5, str(node), ink, 14)]
    if used and not TREE.is_chain(node) and prefix_height(TREE.locate(node)[1]):
        parts.append(text(x - RADIUS - 8, y + 5, WORDS[node], colour(node), 17, "end"))
    elif used:
        parts.append(text(x, y - 26 if TREE.is_chain(node) else y + 36, WORDS[node], colour(node), 17))
    return parts


def drawing() -> str:
    """Return the whole picture."""
    width, height = 2 * MARGIN + 13 * STEP + 20, TOP + 2 * ROW + 130
    edges = parse_edges()
    parts = [line(edge, GREY, 1.2) for edge in support_edges() if edge not in edges]
    parts += [line(edge, colour(edge[1]), 4) for edge in edges]
    parts += [part for node in range(TREE.num_nodes) for part in circle(node)]
    parts.append(text(place(0)[0], place(0)[1] + 35, "ε", GREY, 17))
    notes = [
        (CHAIN, "main chain: V1 is the start symbol, V13 the last node"),
        (
            PREFIX,
            "prefix trees: a complete binary tree of depth l = 2 in front of each later main-chain node",
        ),
        (GREY, "unused here; dashed: unused always, as the last node has no children"),
    ]
    for row, (tone, note) in enumerate(notes):
        parts.append(text(MARGIN - RADIUS, TOP + 2 * ROW + 76 + 20 * row, note, tone, 14, "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    title = "<title>Support tree for Lx = 3, λ = 1, l = 2, with the derivation of one sentence</title>"
    return "\n".join([head, title, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
