"""Lattices in the terminal: a line for every node, from the plain data that `Lattice.to_dict` gives.

Filled circles were used. Symbols of prefix trees stand to the right of the main chain, the deeper the
further, above the word that they belong to; a star is at the rule that was taken:

    node  word         reach  tokens                  rules: left and right child
       7  ● ist       99.7 %  ist 96.3 %, hat 1.2 %   * ↘9 92.6 %, ↙6 ↘9 6.3 %
       8  │  ● heute  75.1 %  heute 76.7 %, es 5.1 %
       9  ● schön     98.8 %  schön 78.5 %            * ↙8 ↘15 71.9 %, ↘15 16.5 %
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pcfgnat.draw.data import percent
from pcfgnat.draw.lattice import symbol_depth
from pcfgnat.draw.terminal import MIN_WIDTH, render_cells, shorten_cells, text_cells
from pcfgnat.draw.text import shown

GAP = 2
WIDEST_WORD = 24
TOKENS = "tokens"
RULES = "rules: left and right child"

Node = Mapping[str, Any]
Cells = tuple[str, ...]


def draw_lattice_terminal(lattice: Mapping[str, Any], width: int = 100, colour: bool = False) -> str:
    """Return a line for every node in at most `width` columns, with as many tokens and rules as fit."""
    if width < MIN_WIDTH:
        raise ValueError(f"width must be at least {MIN_WIDTH}, got {width}")
    nodes: Sequence[Node] = lattice["nodes"]
    if not nodes:
        raise ValueError("a lattice must have nodes, got none")
    numbers = _right(["node", *(str(node["node"]) for node in nodes)])
    words = _left([_cells("word"), *(_word(node, lattice["prefix_depth"]) for node in nodes)])
    reach = _right(["reach", *(percent(node["reach"]) for node in nodes)])
    room = width - len(numbers[0]) - len(words[0]) - len(reach[0]) - 4 * GAP
    tokens = _left([_cells(TOKENS), *(_listed(_tokens(node), room // 2) for node in nodes)])
    rules = [_cells(RULES), *(_listed(_rules(node), room - len(tokens[0])) for node in nodes)]
    styles = ["line", *("chain" if node["visited"] else "line" for node in nodes)]
    lines = []
    for style, *fields in zip(styles, numbers, words, reach, tokens, rules, strict=True):
        cells = [cell for field in fields for cell in (*field, *[" "] * GAP)]
        while cells[-1] == " ":
            cells.pop()
        kept = shorten_cells(tuple(cells), width)
        lines.append(render_cells("", [(cell, style) for cell in kept], colour))
    return "\n".join(lines)


def _cells(text: str) -> Cells:
    """Cut a text into terminal columns; unlike in words, blanks stay blanks."""
    return tuple(" " if cell == "␣" else cell for cell in text_cells(text))


def _left(fields: Sequence[Cells]) -> list[Cells]:
    width = max(map(len, fields))
    return [(*field, *[" "] * (width - len(field))) for field in fields]


def _right(fields: Sequence[str]) -> list[Cells]:
    width = max(map(len, fields))
    return [_cells(field.rjust(width)) for field in fields]


def _word(node: Node, prefix_depth: int) -> Cells:
    depth = symbol_depth(node["node"], prefix_depth)
    mark = "●" if node["visited"] else "○"
    place = f"{mark} " if depth == 0 else f"│{'  ' * depth}{mark} "
    return (*_cells(place), *shorten_cells(text_cells(shown(node["word"])), WIDEST_WORD))


def _tokens(node: Node) -> list[str]:
    return [f"{shown(token['word'])} {percent(token['probability'])}" for token in node["tokens"]]


def _rules(node: Node) -> list[str]:
    """Name the rules, the one that was taken first."""
    return [
        ("* " if rule["chosen"] else "")
        + ("" if rule["left"] is None else f"↙{rule['left']} ")
        + f"↘{rule['right']} {percent(rule['probability'])}"
        for rule in sorted(node["rules"], key=lambda rule: (not rule["chosen"], -rule["probability"]))
    ]


def _listed(entries: Sequence[str], room: int) -> Cells:
    """Return as many entries as fit."""
    line: Cells = ()
    for entry in entries:
        longer = (*line, ",", " ", *_cells(entry)) if line else _cells(entry)
        if len(longer) > room:
            break
        line = longer
    return line
