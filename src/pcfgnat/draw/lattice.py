"""The layout of a lattice: every node that could have been used, and the way that was taken.

All nodes stand in the order in which they would emit, the main chain on a line, symbols of prefix trees below
it. Arcs above the line lead to the right child or the next vertex. What was used is strong; the rest is as
faint as it is improbable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pcfgnat.draw.data import percent
from pcfgnat.draw.scene import BOLD, FONT_SIZE, SMALL, Box, Point, Role, Scene, Stroke
from pcfgnat.draw.text import is_special, safe, shortened, shown
from pcfgnat.draw.tree import (
    CUT,
    HEIGHT,
    LEVEL,
    MARGIN,
    PAGE,
    WIDEST,
    Place,
    box_width,
    check_page,
    heading,
    indent,
)

GAP, ROW_GAP = 8.0, 22.0
LOW_ARC, ARC_STEP, HIGH_ARC = 12.0, 5.0, 64.0
LEAST_DRAWN = 0.02  # arcs of less probability are left out


@dataclass(frozen=True)
class Arc:
    """A step from a node to its right or left child; `weight` is how probable it is that it is taken."""

    start: int
    stop: int
    right: bool
    chosen: bool
    weight: float

    @property
    def height(self) -> float:
        """How far it rises above the main chain."""
        return min(LOW_ARC + ARC_STEP * (self.stop - self.start), HIGH_ARC)

    def meets(self, nodes: range) -> bool:
        """Whether it begins, ends or passes among these nodes."""
        low, high = sorted((self.start, self.stop))
        return low < nodes.stop and nodes.start <= high


@dataclass(frozen=True)
class Row:
    """Some nodes; `top` is the upper edge of their main chain."""

    nodes: range
    places: Mapping[int, Place]
    top: float
    bottom: float

    @property
    def right(self) -> float:
        """Where the last node ends."""
        return self.places[self.nodes.stop - 1].right


def lattice_scene(lattice: Mapping[str, Any], caption: str = "", page: int = PAGE) -> Scene:
    """Lay out what `Lattice.to_dict` gives on a page of some width."""
    check_page(page)
    nodes: Sequence[Mapping[str, Any]] = lattice["nodes"]
    if not nodes:
        raise ValueError("a lattice must have nodes, got none")
    depths = [symbol_depth(node["node"], lattice["prefix_depth"]) for node in nodes]
    labels, top = heading(caption, page)
    arcs = _arcs(nodes)
    rows = _rows(nodes, depths, arcs, page, top)
    width = max(row.right for row in rows) + MARGIN + (CUT if len(rows) > 1 else 0.0)
    strokes: list[Stroke] = []
    for arc in sorted(arcs, key=lambda arc: (arc.chosen, arc.weight)):  # the strong ones on top
        ends = (nodes[arc.start]["node"], nodes[arc.stop]["node"])
        strokes += [
            _stroke(arc, points, ends, depths[arc.start]) for points in _points(arc, rows, depths, width)
        ]
    words = {node["node"]: shown(node["word"]) for node in nodes}
    return Scene(
        width=max([width, *(label.right + MARGIN for label in labels)]),
        height=rows[-1].bottom + MARGIN,
        strokes=tuple(strokes),
        boxes=tuple(_box(nodes[i], words, row, i, depths[i]) for row in rows for i in row.nodes),
        labels=tuple(labels),
        description=safe(caption) or safe(lattice.get("text", "")),
    )


def symbol_depth(node: int, prefix_depth: int) -> int:
    """How far below the main chain a symbol stands: by its height in the complete prefix tree."""
    offset = (node - 1) % (1 << prefix_depth)  # 0 is the main chain
    return prefix_depth - ((offset & -offset).bit_length() - 1) if offset else 0


def _arcs(nodes: Sequence[Mapping[str, Any]]) -> list[Arc]:
    """Add up the rules of each node by right and by left child."""
    place = {node["node"]: i for i, node in enumerate(nodes)}
    arcs = []
    for i, node in enumerate(nodes):
        steps: dict[tuple[bool, int], tuple[float, bool]] = {}
        for rule in node["rules"]:
            for right, child in ((True, rule["right"]), (False, rule["left"])):
                if child is not None:
                    weight, chosen = steps.get((right, child), (0.0, False))
                    steps[right, child] = (weight + rule["probability"], chosen or rule["chosen"])
        for (right, child), (weight, chosen) in steps.items():
            arc = Arc(i, place[child], right, chosen, weight if chosen else weight * node["reach"])
            if chosen or arc.weight >= LEAST_DRAWN:
                arcs.append(arc)
    return arcs


def _rows(
    nodes: Sequence[Mapping[str, Any]], depths: Sequence[int], arcs: Sequence[Arc], page: int, top: float
) -> list[Row]:
    """Cut the nodes into rows behind those of the main chain."""
    widths = [box_width(_label(node), _size(node) * (BOLD if node["visited"] else 1.0)) for node in nodes]
    rows: list[Row] = []
    start = 0
    while start < len(nodes):
        places: dict[int, Place] = {}
        left, stop = indent(start), start
        for i in range(start, len(nodes)):
            places[i] = Place(left, left + widths[i])
            left = places[i].right + GAP
            room = page - MARGIN - (CUT if i < len(nodes) - 1 else 0.0)
            if places[i].right > room and stop > start:
                break
            if depths[i] == 0:
                stop = i + 1
        part = range(start, stop)
        above = [arc.height for arc in arcs if arc.right and arc.meets(part)]
        top += max(above, default=0.0)
        bottom = top + HEIGHT + LEVEL * max(depths[i] for i in part)
        rows.append(Row(part, {i: places[i] for i in part}, top, bottom))
        top, start = bottom + ROW_GAP, stop
    return rows


def _points(arc: Arc, rows: Sequence[Row], depths: Sequence[int], width: float) -> list[tuple[Point, ...]]:
    """Curves of an arc: one, or one for each row that it goes through."""
    met = [row for row in rows if arc.meets(row.nodes)]
    first, second = met[0], met[-1]
    start, stop = first.places[arc.start], second.places[arc.stop]
    if not arc.right or depths[arc.start]:  # below the main chain
        inset = min(10.0, (start.right - start.left) / 2)
        x = start.right - inset if arc.right else start.left + inset
        top, bottom = (
            row.top + HEIGHT / 2 + depths[i] * LEVEL + side * HEIGHT / 2
            for row, i, side in ((first, arc.start, 1), (second, arc.stop, -1))
        )
        return [_descent((x, top), (stop.centre, bottom))]
    up = arc.height * 4 / 3  # where a curve's handles are, for it to rise that high
    if first is second:
        lean = (stop.centre - start.centre) * 0.15
        return [
            (
                (start.centre, first.top),
                (start.centre + lean, first.top - up),
                (stop.centre - lean, first.top - up),
                (stop.centre, first.top),
            )
        ]
    edge, high, low = width - MARGIN, first.top - arc.height, second.top - arc.height
    through = [row.top - arc.height for row in met[1:-1]]
    return [
        *(((MARGIN, y), (MARGIN, y), (edge, y), (edge, y)) for y in through),
        ((start.centre, first.top), (start.centre + 6, high), (start.centre + 12, high), (edge, high)),
        ((MARGIN, low), (stop.centre - 12, low), (stop.centre - 6, low), (stop.centre, second.top)),
    ]


def _descent(start: Point, stop: Point) -> tuple[Point, ...]:
    """Bend to the child's column right below the parent, where nothing stands, and then go straight down."""
    (x, top), (column, bottom) = start, stop
    turned = min(top + LEVEL - HEIGHT, bottom)
    bend = (turned - top) * 0.75
    curve = ((x, top), (x, top + bend), (column, turned - bend), (column, turned))
    return curve if turned == bottom else (*curve, (column, turned), stop, stop)


def _stroke(arc: Arc, points: tuple[Point, ...], ends: tuple[int, int], depth: int) -> Stroke:
    role: Role = "unvisited"
    if arc.chosen:
        role = "chain" if arc.right and depth == 0 else "prefix"
    # what was not taken stays thin beside what was
    strength = 0.35 + 0.65 * arc.weight if arc.chosen else arc.weight * 0.6
    return Stroke(points, role, strength, curved=True, ends=ends)


def _box(node: Mapping[str, Any], words: Mapping[int, str], row: Row, i: int, depth: int) -> Box:
    role: Role = "unvisited"
    if node["visited"]:
        role = "end" if is_special(node["word"]) else "prefix" if depth else "chain"
    place = row.places[i]
    chance = next((t["probability"] for t in node["tokens"] if t["word"] == node["word"]), 0.0)
    return Box(
        x=place.centre,
        y=row.top + HEIGHT / 2 + depth * LEVEL,
        width=place.right - place.left,
        height=HEIGHT if node["visited"] else HEIGHT - 6,
        text=_label(node),
        role=role,
        strength=chance if node["visited"] else node["reach"],
        title=_title(node, words),
        node=node["node"],
        position=i,
        size=_size(node),
        opaque=True,
    )


def _title(node: Mapping[str, Any], words: Mapping[int, str]) -> str:
    where = "main chain" if node["main_chain"] else "prefix tree"
    used = "used" if node["visited"] else "not used"
    lines = [f"node {node['node']}, {where}, {used}; reached with {percent(node['reach'])}"]
    lines += [f"token {safe(token['word'])} {percent(token['probability'])}" for token in node["tokens"]]
    for rule in node["rules"]:
        left = "" if rule["left"] is None else f"left {words[rule['left']]} ({rule['left']}), "
        right = f"right {words[rule['right']]} ({rule['right']})"
        lines.append(f"rule {left}{right} {percent(rule['probability'])}")
    return "\n".join(lines)


def _label(node: Mapping[str, Any]) -> str:
    return shortened(shown(node["word"]), WIDEST, _size(node))


def _size(node: Mapping[str, Any]) -> float:
    return FONT_SIZE if node["visited"] else SMALL
