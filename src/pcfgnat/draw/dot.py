"""Scenes for Graphviz. Every place and every curve is written down, so that `dot -Tpdf` keeps the layout."""

from collections.abc import Iterable, Sequence

from pcfgnat.draw.scene import LIGHT, SMALL, Box, Label, Point, Scene, Stroke

POINTS = 0.75  # of a CSS pixel
FONT = "sans-serif"


def scene_dot(scene: Scene, name: str = "tree") -> str:
    """Return a graph of the boxes that are nodes and of what joins them.

    Captions are the graph's label, a line each. Brackets below words, and the marks where a line continues in
    the next row, are its background: they are part of the picture, not of the graph.
    """
    nodes = {box.node: box for box in scene.boxes if box.node is not None}
    caption = "".join(_escaped(label.text) + r"\l" for label in scene.labels if label.anchor == "start")
    background = [
        *(_drawn_line(stroke, scene.height) for stroke in scene.strokes if stroke.ends is None),
        *(_drawn_text(label, scene.height) for label in scene.labels if label.anchor == "middle"),
    ]
    return "\n".join(
        [
            f"digraph {quoted(name)} {{",
            "  layout=nop2; outputorder=edgesfirst;",
            f'  label="{caption}"; labelloc=t; labeljust=l;',
            f'  fontname="{FONT}"; fontsize=10;',
            *([f"  _background={quoted(' '.join(background))};"] if background else []),
            '  node [shape=box, style="rounded,filled", fixedsize=true, '
            f'fontname="{FONT}", fontsize=10, margin=0];',
            "  edge [arrowhead=none];",
            *(f"  {_node(box, scene.height)}" for box in nodes.values()),
            *(f"  {_edge(ends, strokes, scene.height)}" for ends, strokes in _joined(scene.strokes).items()),
            "}",
            "",
        ]
    )


def quoted(text: str) -> str:
    """Write a text so that Graphviz takes every character for itself."""
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _node(box: Box, height: float) -> str:
    colour = LIGHT.of(box.role)
    attributes = {
        "label": quoted(box.text),
        "tooltip": quoted(box.title),
        "pos": f'"{_place((box.x, box.y), height)}"',
        "width": f"{box.width * POINTS / 72:.3f}",
        "height": f"{box.height * POINTS / 72:.3f}",
        "color": f'"{_mixed(colour, box.border_opacity)}"',
        "fillcolor": f'"{_mixed(colour, box.fill_opacity)}"',
        "fontcolor": f'"{_mixed(LIGHT.muted if box.hollow else LIGHT.ink, box.text_opacity)}"',
    }
    if box.hollow:
        attributes["style"] = '"rounded,filled,dashed"'
    if box.size == SMALL:
        attributes["fontsize"] = f"{box.size * POINTS:.0f}"
    return f"{box.node} [{', '.join(f'{name}={value}' for name, value in attributes.items())}];"


def _joined(strokes: Iterable[Stroke]) -> dict[tuple[int, int], list[Stroke]]:
    """Collect the strokes of each edge: one that continues in the next row has several."""
    found: dict[tuple[int, int], list[Stroke]] = {}
    for stroke in strokes:
        if stroke.ends is not None:
            found.setdefault(stroke.ends, []).append(stroke)
    return found


def _edge(ends: tuple[int, int], strokes: Sequence[Stroke], height: float) -> str:
    first = strokes[0]
    curves = ";".join(" ".join(_place(point, height) for point in _curve(stroke)) for stroke in strokes)
    shade = _mixed(LIGHT.of(first.role), first.opacity)
    return f'{ends[0]} -> {ends[1]} [color="{shade}", penwidth={first.width:.2f}, pos="{curves}"];'


def _curve(stroke: Stroke) -> list[Point]:
    """Return a Bézier curve: of a straight line the ends are its control points."""
    if stroke.curved:
        return list(stroke.points)
    points = [stroke.points[0]]
    for before, after in zip(stroke.points, stroke.points[1:], strict=False):
        points += [before, after, after]
    return points


def _drawn_line(stroke: Stroke, height: float) -> str:
    """Write a line in the language of `_background`: its width, its colour, its points."""
    colour = _mixed(LIGHT.of(stroke.role), stroke.opacity)
    width = f"setlinewidth({stroke.width * POINTS:.2f})"
    places = " ".join(_place(point, height, " ") for point in stroke.points)
    return f"S {len(width)} -{width} c {len(colour)} -{colour} L {len(stroke.points)} {places}"


def _drawn_text(label: Label, height: float) -> str:
    place, size = _place((label.x, label.y), height, " "), label.size * POINTS
    font, text = FONT, label.text
    bytes_of = len(text.encode())
    return (
        f"F {size:.1f} {len(font)} -{font} c {len(LIGHT.muted)} -{LIGHT.muted} "
        f"T {place} 0 {label.right - label.x:.0f} {bytes_of} -{text}"
    )


def _place(point: Point, height: float, between: str = ",") -> str:
    return f"{point[0] * POINTS:.1f}{between}{(height - point[1]) * POINTS:.1f}"


def _mixed(colour: str, share: float) -> str:
    """Mix a colour with white: Graphviz's back ends differ in what they make of transparency."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)
