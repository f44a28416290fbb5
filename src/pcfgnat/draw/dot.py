"""Scenes for Graphviz. The places of nodes are written down, so that `dot -Tpdf` keeps the layout."""

from pcfgnat.draw.scene import LIGHT, Box, Scene

POINTS = 0.75  # of a CSS pixel


def scene_dot(scene: Scene, name: str = "tree") -> str:
    """Return a graph of the boxes that are nodes and of what joins them; labels are left out."""
    nodes = {box.node: box for box in scene.boxes if box.node is not None}
    lines = [
        f"digraph {quoted(name)} {{",
        "  layout=neato; inputscale=72; splines=line; outputorder=edgesfirst;",
        f"  label={quoted(scene.description)}; labelloc=t;",
        '  node [shape=box, style="rounded,filled", fixedsize=true, fontname="sans-serif", fontsize=10];',
        "  edge [arrowhead=none];",
        *(f"  {_node(box, scene.height)}" for box in nodes.values()),
    ]
    for pair in dict.fromkeys(stroke.ends for stroke in scene.strokes if stroke.ends):
        first = next(stroke for stroke in scene.strokes if stroke.ends == pair)
        shade = _mixed(LIGHT.of(first.role), first.opacity)
        lines.append(f'  {pair[0]} -> {pair[1]} [color="{shade}", penwidth={first.width:.2f}];')
    return "\n".join([*lines, "}", ""])


def quoted(text: str) -> str:
    """Write a text so that Graphviz takes every character for itself."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _node(box: Box, height: float) -> str:
    colour = LIGHT.of(box.role)
    attributes = {
        "label": quoted(box.text),
        "tooltip": quoted(box.title),
        "pos": f'"{box.x * POINTS:.1f},{(height - box.y) * POINTS:.1f}!"',
        "width": f"{box.width * POINTS / 72:.3f}",
        "height": f"{box.height * POINTS / 72:.3f}",
        "color": f'"{colour}"',
        "fillcolor": f'"{_mixed(colour, box.fill_opacity)}"',
    }
    return f"{box.node} [{', '.join(f'{name}={value}' for name, value in attributes.items())}];"


def _mixed(colour: str, share: float) -> str:
    """Mix a colour with white: Graphviz's back ends differ in what they make of transparency."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)
