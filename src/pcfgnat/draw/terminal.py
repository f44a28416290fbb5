"""Parse trees in the terminal, drawn from the plain data that `ParseTree.to_dict` gives.

Words keep their order from left to right. The main chain is the upper line; where a word on it has a prefix
tree, that tree hangs from the line in front of the word:

    <bos>──You──┬────────need─┬────────boat──.──<eos>
               are───┐        a───┐
                   gonna        bigger
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pcfgnat.draw.data import read_tree
from pcfgnat.draw.text import characters, is_wide

MIN_WIDTH = 20
MAX_DEPTH = 64  # beyond it a picture would be mostly blank lines
PERCENTAGES = {"token_log_prob": "token %", "rule_log_prob": "rule %"}
STYLES = {"chain": "\x1b[1m", "line": "\x1b[2m", "number": "\x1b[36m", "": ""}
RESET = "\x1b[0m"

Node = Mapping[str, Any]
Cell = tuple[str, str]  # what stands in a terminal column, and its style
BLANK: Cell = (" ", "")


def draw_terminal(tree: Mapping[str, Any], width: int = 100, colour: bool = False) -> str:
    """Draw a tree in lines of at most `width` columns; a long sentence continues below.

    The percentages are the probabilities of each token and of each node's pair of children; a node without
    children has no choice and shows none.
    """
    if width < MIN_WIDTH:
        raise ValueError(f"width must be at least {MIN_WIDTH}, got {width}")
    depths = [word.depth for word in read_tree(tree)]
    nodes: Sequence[Node] = tree["nodes"]
    labels = {name: label for name, label in PERCENTAGES.items() if name in nodes[0]}
    gutter = max((len(label) + 1 for label in labels.values()), default=0)
    if max(depths) > MAX_DEPTH:
        raise ValueError(f"a tree in the terminal must have at most {MAX_DEPTH} levels, got {max(depths)}")
    columns = _columns(nodes, labels, room=width - gutter)
    words = _Sheet([{} for _ in range(max(depths) + 1)])
    _draw_words(words, nodes, columns, depths)
    sheets = [(" " * gutter, words)]
    for name, label in labels.items():
        sheets.append((label.ljust(gutter), _Sheet([{}])))
        _draw_percentages(sheets[-1][1], nodes, columns, name)
    return "\n\n".join(
        "\n".join(
            render_cells(before, cells, colour) for before, sheet in sheets for cells in sheet.part(*piece)
        )
        for piece in _pieces(nodes, columns, room=width - gutter)
    )


def text_cells(text: str) -> tuple[str, ...]:
    """Cut a text into terminal columns: a wide character takes two, the second empty, an accent none."""
    cells: list[str] = []
    for character in characters(text):
        cells += [character, ""] if is_wide(character) else [character]
    return tuple(cells)


@dataclass(frozen=True)
class _Column:
    """Where a token stands: columns `start … stop - 1`, with its text in the middle of them."""

    start: int
    stop: int
    text: tuple[str, ...]

    @property
    def left(self) -> int:
        return self.start + (self.stop - self.start - len(self.text)) // 2

    @property
    def right(self) -> int:
        return self.left + len(self.text)

    @property
    def centre(self) -> int:
        return (self.left + self.right - 1) // 2


@dataclass(frozen=True)
class _Sheet:
    """Rows of cells by column, as wide as the sentence is long; it is drawn once and then cut into parts."""

    rows: list[dict[int, Cell]]

    def put(self, row: int, column: int, text: Iterable[str], style: str) -> None:
        """Write cells from a column on."""
        self.rows[row].update((i, (cell, style)) for i, cell in enumerate(text, column))

    def part(self, start: int, stop: int) -> list[list[Cell]]:
        """Return columns `start … stop - 1` of the rows down to the last that has something there."""
        lines = [[row.get(i, BLANK) for i in range(start, stop)] for row in self.rows]
        while len(lines) > 1 and all(cell == BLANK for cell in lines[-1]):
            lines.pop()
        return lines


def _columns(nodes: Sequence[Node], labels: Iterable[str], room: int) -> list[_Column]:
    """Return the columns of every token, for its text and its percentages."""
    columns: list[_Column] = []
    start = 0
    for node, following in zip(nodes, [*nodes[1:], None], strict=True):
        text = shorten_cells(text_cells(str(node.get("word", node["token"]))), room - 2)
        stop = start + max(len(text), *(len(_percent(node, name)) for name in labels), 1)
        columns.append(_Column(start, stop, text))
        start = stop + (2 if following and node["main_chain"] and following["main_chain"] else 1)
    return columns


def _pieces(nodes: Sequence[Node], columns: Sequence[_Column], room: int) -> list[tuple[int, int]]:
    """Ranges of columns to draw below each other, cut behind words of the main chain where possible."""
    stops = [*(column.start for column in columns[1:]), columns[-1].stop]  # a cut shows the line running on
    pieces = []
    first = 0
    while first < len(columns):
        start = columns[first].start
        last = first
        while last + 1 < len(columns) and stops[last + 1] - start <= room:
            last += 1
        if last < len(columns) - 1:
            chain = (i for i in range(last, first - 1, -1) if nodes[i]["main_chain"])
            last = next(chain, last)
        pieces.append((start, stops[last]))
        first = last + 1
    return pieces


def _draw_words(
    sheet: _Sheet, nodes: Sequence[Node], columns: Sequence[_Column], depths: Sequence[int]
) -> None:
    sheet.put(0, columns[0].right, "─" * (columns[-1].left - columns[0].right), "line")
    for node, column, depth in zip(nodes, columns, depths, strict=True):
        left = None if node["left"] is None else columns[node["left"]].centre
        right = None if node["right"] is None else columns[node["right"]].centre
        if node["main_chain"]:
            if left is not None:
                sheet.put(0, left, "┬", "line")
            sheet.put(0, column.left, column.text, "chain")
            continue
        if left is not None:
            sheet.put(depth, left, "┌" + "─" * (column.left - left - 1), "line")
        if right is not None:
            sheet.put(depth, column.right, "─" * (right - column.right) + "┐", "line")
        sheet.put(depth, column.left, column.text, "")


def _draw_percentages(sheet: _Sheet, nodes: Sequence[Node], columns: Sequence[_Column], name: str) -> None:
    for node, column in zip(nodes, columns, strict=True):
        text = _percent(node, name)
        sheet.put(0, column.start + (column.stop - column.start - len(text)) // 2, text, "number")


def _percent(node: Node, name: str) -> str:
    if name == "rule_log_prob" and node["right"] is None:
        return ""
    log_prob = node[name]
    share = 0.0 if log_prob is None else 100 * math.exp(min(log_prob, 0.0))
    return "<1" if 0 < share < 0.5 else f"{share:.0f}"


def shorten_cells(text: tuple[str, ...], room: int) -> tuple[str, ...]:
    """Cut a text that takes more columns than there are."""
    if len(text) <= room:
        return text
    kept = text[: room - 1]
    if text[room - 1] == "":  # only half of a wide character is left
        kept = (*kept[:-1], " ")
    return (*kept, "…")


def render_cells(before: str, cells: Sequence[Cell], colour: bool) -> str:
    """Write a line of cells, with their styles if it may have colour."""
    if not colour:
        return (before + "".join(cell for cell, _ in cells)).rstrip()
    pieces, current = [before], ""
    for cell, style in cells:
        if style != current:
            pieces.append((RESET if current else "") + STYLES[style])
            current = style
        pieces.append(cell)
    return "".join(pieces).rstrip() + (RESET if current else "")
