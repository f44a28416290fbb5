"""Scenes as SVG: one self-contained element, in the light or the dark, safe inside a page.

Its rules reach nothing outside of it, and it has no ids. A page can set its colours by `--pcfgnat-paper`,
`--pcfgnat-ink`, `--pcfgnat-muted`, `--pcfgnat-chain` and `--pcfgnat-prefix`. Nodes are groups of class `node`
with the number of their symbol as `data-node` and their position in the sentence as `data-position`.
"""

from dataclasses import asdict
from xml.sax.saxutils import escape, quoteattr

from pcfgnat.draw.scene import DARK, FONT_SIZE, LIGHT, Box, Label, Palette, Scene, Stroke, Theme

FONTS = "'Noto Sans','DejaVu Sans','Helvetica Neue',Arial,'Noto Sans CJK SC','PingFang SC',sans-serif"
SCOPE = "svg.pcfgnat-picture"


def scene_svg(scene: Scene, theme: Theme = "auto") -> str:
    """Draw a scene; `auto` follows what the reader's system prefers."""
    width, height = _number(scene.width), _number(scene.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pcfgnat-picture" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(scene.description)} '
        f'font-family="{FONTS}" font-size="{_number(FONT_SIZE)}">',
        f"<style>{svg_style(theme)}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *(_stroke(stroke) for stroke in scene.strokes),
        *(_box(box) for box in scene.boxes),
        *(_label(label) for label in scene.labels),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _stroke(stroke: Stroke) -> str:
    first, *others = [f"{_number(x)} {_number(y)}" for x, y in stroke.points]
    path = f"M{first}" + (f"C{' '.join(others)}" if stroke.curved else "".join(f"L{p}" for p in others))
    ends = f' data-from="{stroke.ends[0]}" data-to="{stroke.ends[1]}"' if stroke.ends else ""
    title = f"<title>{escape(stroke.title)}</title>" if stroke.title else ""
    return (
        f'<path class="edge {stroke.role}"{ends} d="{path}" stroke-width="{_number(stroke.width)}" '
        f'stroke-opacity="{_number(stroke.opacity)}">{title}</path>'
    )


def _box(box: Box) -> str:
    node = "" if box.node is None else f' data-node="{box.node}"'
    position = "" if box.position is None else f' data-position="{box.position}"'
    faint = "" if box.text_opacity == 1 else f' fill-opacity="{_number(box.text_opacity)}"'
    size = "" if box.size == FONT_SIZE else f' font-size="{_number(box.size)}"'
    place = (
        f'x="{_number(box.x - box.width / 2)}" y="{_number(box.y - box.height / 2)}" '
        f'width="{_number(box.width)}" height="{_number(box.height)}" rx="{_number(box.radius)}"'
    )
    return (
        f'<g class="node {box.role}"{node}{position}>'
        + (f"<title>{escape(box.title)}</title>" if box.title else "")
        + (f'<rect class="paper" {place}/>' if box.opaque else "")
        + f'<rect {place} fill-opacity="{_number(box.fill_opacity)}" '
        f'stroke-opacity="{_number(box.border_opacity)}"/>'
        f'<text x="{_number(box.x)}" y="{_number(box.y + 0.35 * box.size)}"{size}{faint} '
        f'text-anchor="middle">{escape(box.text)}</text></g>'
    )


def _label(label: Label) -> str:
    weight = ' class="strong"' if label.strong else ""
    return (
        f'<text{weight} x="{_number(label.x)}" y="{_number(label.y)}" font-size="{_number(label.size)}" '
        f'text-anchor="{label.anchor}">{escape(label.text)}</text>'
    )


def svg_style(theme: Theme = "auto") -> str:
    """Rules for everything; programs that know no variables take the plain colour in front of each."""
    plain = asdict(DARK if theme == "dark" else LIGHT)

    def colour(attribute: str, name: str) -> str:
        return f"{attribute}:{plain[name]};{attribute}:var(--{name})"

    rules = {
        "text": f"{colour('fill', 'muted')};stroke:none",
        ".strong": f"{colour('fill', 'ink')};font-weight:600",
        ".node text": colour("fill", "ink"),
        ".node.chain text": "font-weight:600",
        ".node.end text,{scope} .node.unvisited text": colour("fill", "muted"),
        ".node,{scope} .edge": colour("color", "muted"),
        ".node.chain,{scope} .edge.chain": colour("color", "chain"),
        ".node.prefix,{scope} .edge.prefix": colour("color", "prefix"),
        ".node rect": "fill:currentColor;stroke:currentColor;stroke-width:1.2",
        ".node.end rect,{scope} .node.unvisited rect": "stroke-dasharray:3 3",
        ".node rect.paper,{scope} .paper": f"{colour('fill', 'paper')};stroke:none",
        ".edge": "fill:none;stroke:currentColor;stroke-linejoin:round",
    }
    body = "".join(f"{SCOPE} {name.format(scope=SCOPE)}{{{rule}}}" for name, rule in rules.items())
    return _variables(theme) + body


def _variables(theme: Theme) -> str:
    if theme != "auto":
        return _block(DARK if theme == "dark" else LIGHT)
    return f"{_block(LIGHT)}@media (prefers-color-scheme:dark){{{_block(DARK)}}}"


def _block(palette: Palette) -> str:
    colours = "".join(f"--{name}:var(--pcfgnat-{name},{value});" for name, value in asdict(palette).items())
    return f"{SCOPE}{{{colours}}}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
