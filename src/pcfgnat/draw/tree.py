"""The layout of a parse tree: where everything stands, whatever the format.

Every token has a column of its own, so the sentence reads from left to right. The main chain is one line with
its words on it; a prefix tree hangs below that line, in front of its word. Long sentences wrap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pcfgnat.draw.data import Word, percent, read_tree
from pcfgnat.draw.scene import BOLD, FONT_SIZE, SMALL, Box, Label, Role, Scene, Stroke
from pcfgnat.draw.text import safe, shortened, text_width, words_of, wrapped

MARGIN, PADDING, HEIGHT = 16.0, 9.0, 30.0
LEVEL, ROW_GAP = 50.0, 26.0
CHAIN_GAP, NEAR_GAP, JOINED_GAP = 26.0, 10.0, 8.0
CUT = 28.0  # a line that continues in the next row
BRACE = 30.0
CAPTION = 13.0
WIDEST = 320.0
MIN_PAGE = 200
PAGE = 960


@dataclass(frozen=True)
class Place:
    """Where a word stands: from `left` to `right`."""

    left: float
    right: float

    @property
    def centre(self) -> float:
        """The middle."""
        return (self.left + self.right) / 2

    def moved(self, by: float) -> "Place":
        """Return it further to the right."""
        return Place(self.left + by, self.right + by)


@dataclass(frozen=True)
class Row:
    """Some words of the sentence; `top` is the upper edge of its main chain, `bottom` is below everything.

    `braced` are the words of several pieces, each with the pieces of it that stand in this row.
    """

    words: range
    places: Mapping[int, Place]
    braced: Sequence[tuple[range, range]]
    top: float
    bottom: float

    @property
    def chain(self) -> float:
        """Height of the main chain."""
        return self.top + HEIGHT / 2


def tree_scene(tree: Mapping[str, Any], caption: str = "", page: int = PAGE) -> Scene:
    """Lay out a tree on a page of some width; only a prefix tree that is wider makes the page wider."""
    check_page(page)
    words = read_tree(tree)
    groups = words_of([word.piece for word in words])
    captions, top = heading(caption, page)
    rows = _rows(words, groups, page, top)
    ends = [max(place.right for place in row.places.values()) for row in rows]
    width = max([ends[-1], *(end + CUT for end in ends[:-1])]) + MARGIN
    braces, names = _braces(words, rows)
    sentence = " ".join(word.text for word in words if not word.special)
    return Scene(
        width=max([width, *(label.right + MARGIN for label in captions)]),
        height=rows[-1].bottom + MARGIN,
        strokes=(*_chain_lines(words, rows, width), *_tree_lines(words, rows), *braces),
        boxes=tuple(_box(word, words, row) for row in rows for word in _of(words, row)),
        labels=(*captions, *names),
        description=safe(caption) or sentence,
    )


def check_page(page: int) -> None:
    """Raise an error if a page is too narrow."""
    if page < MIN_PAGE:
        raise ValueError(f"the page must be at least {MIN_PAGE} wide, got {page}")


def heading(caption: str, page: int) -> tuple[list[Label], float]:
    """Write a caption, its last line strong; return where what it is about can begin."""
    *context, own = caption.split("\n")
    lines = [(line, False) for text in context for line in wrapped(text, page - 2 * MARGIN, SMALL)]
    lines += [(line, True) for line in wrapped(own, page - 2 * MARGIN, CAPTION * BOLD)]
    labels = [
        Label(MARGIN, MARGIN + 12 + 18 * i, line, CAPTION if strong else SMALL, strong=strong)
        for i, (line, strong) in enumerate(lines)
    ]
    return labels, MARGIN + (18.0 * len(lines) + 10 if lines else 0.0)


def tree_rows(words: Sequence[Word], page: int) -> list[range]:
    """Return which words stand in which row on a page of some width."""
    return _balanced(words, _columns(words), page)


def _rows(words: Sequence[Word], groups: Sequence[range], page: int, top: float) -> list[Row]:
    columns = _columns(words)
    parts = _balanced(words, columns, page)
    rows: list[Row] = []
    for part, braced in zip(parts, _in_rows(groups, parts), strict=True):
        by = indent(part.start) - columns[part.start].left
        depth = max(words[i].depth for i in part)
        lowest = [_lowest(words, pieces) * LEVEL + BRACE for _, pieces in braced]
        bottom = top + HEIGHT + max([depth * LEVEL, *lowest])
        rows.append(Row(part, {i: columns[i].moved(by) for i in part}, braced, top, bottom))
        top = bottom + ROW_GAP
    return rows


def _in_rows(groups: Sequence[range], parts: Sequence[range]) -> list[list[tuple[range, range]]]:
    """Return for each row the groups that it has something of, and what."""
    row_of = [row for row, part in enumerate(parts) for _ in part]
    found: list[list[tuple[range, range]]] = [[] for _ in parts]
    for group in groups:
        for row in range(row_of[group.start], row_of[group.stop - 1] + 1):
            part = parts[row]
            inside = range(max(group.start, part.start), min(group.stop, part.stop))
            found[row].append((group, inside))
    return found


def _columns(words: Sequence[Word]) -> list[Place]:
    """Return the columns of every word on an endless line."""
    columns: list[Place] = []
    for word in words:
        left = 0.0
        if columns:
            on_chain = word.main_chain and words[word.position - 1].main_chain
            gap = JOINED_GAP if word.joined else CHAIN_GAP if on_chain else NEAR_GAP
            left = columns[-1].right + gap
        bold = word.main_chain and not word.special
        columns.append(Place(left, left + box_width(_label(word), FONT_SIZE * (BOLD if bold else 1.0))))
    return columns


def _balanced(words: Sequence[Word], columns: Sequence[Place], page: int) -> list[range]:
    """Cut the sentence into as few rows as the page allows, all of about the same length."""
    best = _cuts(words, columns, page)
    low, high = page // 2, page
    while len(best) > 1 and high - low > 8:
        middle = (low + high) // 2
        narrower = _cuts(words, columns, middle)
        if len(narrower) > len(best) or _widest(narrower, columns) > page:
            low = middle
        else:
            best, high = narrower, middle
    return best


def _widest(rows: Sequence[range], columns: Sequence[Place]) -> float:
    return max(columns[row.stop - 1].right - columns[row.start].left + indent(row.start) for row in rows)


def _cuts(words: Sequence[Word], columns: Sequence[Place], page: int) -> list[range]:
    """Cut the sentence into rows behind words of the main chain, and inside no word if that can be."""
    cuts: list[range] = []
    start = 0
    while start < len(words):
        room = page - MARGIN - indent(start) + columns[start].left
        stop = len(words)
        if columns[-1].right > room:
            fitting: list[int] = []
            for end in range(start + 1, len(words) + 1):
                if columns[end - 1].right > room - CUT and fitting:
                    break
                if words[end - 1].main_chain:
                    fitting.append(end)
            whole = [end for end in fitting if end == len(words) or not words[end].joined]
            stop = (whole or fitting)[-1]
        cuts.append(range(start, stop))
        start = stop
    return cuts


def indent(start: int) -> float:
    """Where a row begins: later ones leave room for the line that comes in."""
    return MARGIN + CUT if start else MARGIN


def _label(word: Word) -> str:
    return shortened(word.text, WIDEST, FONT_SIZE)


def box_width(text: str, size: float = FONT_SIZE) -> float:
    """Room that a box needs for its text."""
    return max(text_width(text, size) + 2 * PADDING, HEIGHT)


def _of(words: Sequence[Word], row: Row) -> Sequence[Word]:
    return words[row.words.start : row.words.stop]


def _box(word: Word, words: Sequence[Word], row: Row) -> Box:
    place = row.places[word.position]
    role: Role = "end" if word.special else "chain" if word.main_chain else "prefix"
    return Box(
        x=place.centre,
        y=row.chain + word.depth * LEVEL,
        width=place.right - place.left,
        height=HEIGHT,
        text=_label(word),
        role=role,
        strength=1.0 if word.token_probability is None else word.token_probability,
        title=_title(word, words),
        node=word.node,
        position=word.position,
    )


def _title(word: Word, words: Sequence[Word]) -> str:
    where = "main chain" if word.main_chain else "prefix tree"
    lines = [safe(word.piece) or word.text, f"node {word.node}, {where}"]
    if word.token_probability is not None:
        lines.append(f"token {percent(word.token_probability)}")
    if word.right is not None:
        left = "no left child" if word.left is None else f"left {words[word.left].text}"
        chance = "" if word.rule_probability is None else f" {percent(word.rule_probability)}"
        lines.append(f"rule{chance}: {left}, right {words[word.right].text}")
    return "\n".join(lines)


def _chain_lines(words: Sequence[Word], rows: Sequence[Row], width: float) -> list[Stroke]:
    """Join the words of the main chain; between two rows the line runs out and comes in again."""
    row_of = {i: row for row in rows for i in row.words}
    lines = []
    for before, after in pairwise(word for word in words if word.main_chain):
        strength, ends = _strength(before), (before.node, after.node)
        first, second = row_of[before.position], row_of[after.position]
        start, stop = first.places[before.position].right, second.places[after.position].left
        if first is second:
            lines.append(_line("chain", strength, ends, (start, first.chain), (stop, first.chain)))
            continue
        edge = width - MARGIN
        lines.append(_line("chain", strength, ends, (start, first.chain), (edge, first.chain)))
        lines.append(_line("chain", strength, ends, (MARGIN, second.chain), (stop, second.chain)))
        for x, y in ((edge, first.chain), (MARGIN + 7, second.chain)):
            lines.append(_line("chain", strength, None, (x - 6, y - 6), (x, y), (x - 6, y + 6)))
    return lines


def _tree_lines(words: Sequence[Word], rows: Sequence[Row]) -> list[Stroke]:
    """Hang every word of a prefix tree on its parent."""
    lines = []
    for row in rows:
        for word in _of(words, row):
            lines += [_hanging(word, words[child], row) for child in _hung(word)]
    return lines


def _hanging(parent: Word, child: Word, row: Row) -> Stroke:
    place, below = row.places[parent.position], row.places[child.position]
    inset = min(14.0, (place.right - place.left) / 2)
    start = place.left + inset if child.position < parent.position else place.right - inset
    top = row.chain + parent.depth * LEVEL + HEIGHT / 2
    bottom = row.chain + child.depth * LEVEL - HEIGHT / 2
    bend = (bottom - top) * 0.75
    return Stroke(
        points=((start, top), (start, top + bend), (below.centre, bottom - bend), (below.centre, bottom)),
        role="prefix",
        strength=_strength(parent),
        curved=True,
        ends=(parent.node, child.node),
    )


def _line(role: Role, strength: float, ends: tuple[int, int] | None, *points: tuple[float, float]) -> Stroke:
    return Stroke(tuple(points), role, strength, ends=ends)


def _strength(word: Word) -> float:
    return 1.0 if word.rule_probability is None else word.rule_probability


def _lowest(words: Sequence[Word], part: range) -> int:
    """How deep these words and the lines that leave them reach."""
    leaving = [words[i].depth + 1 for i in part for child in _hung(words[i]) if child not in part]
    return max([*(words[i].depth for i in part), *leaving])


def _hung(word: Word) -> list[int]:
    """Return the children that hang below a word; on the main chain the right one stands beside it."""
    children = (word.left, None if word.main_chain else word.right)
    return [child for child in children if child is not None]


def _braces(words: Sequence[Word], rows: Sequence[Row]) -> tuple[list[Stroke], list[Label]]:
    """Join the pieces of a word below them, and write the word there."""
    strokes, labels = [], []
    for row in rows:
        for group, part in row.braced:
            left, right = row.places[part[0]].left + 3, row.places[part[-1]].right - 3
            y = row.top + HEIGHT + _lowest(words, part) * LEVEL + 11
            points = ((left, y - 5), (left, y), (right, y), (right, y - 5))
            strokes.append(Stroke(points, "plain", 0.6))
            text = "".join(words[i].text for i in part)
            text = ("…" if part[0] > group.start else "") + text + ("…" if part[-1] < group.stop - 1 else "")
            text = shortened(text, right - left, SMALL)
            labels.append(Label((left + right) / 2, y + 14, text, anchor="middle"))
    return strokes, labels
