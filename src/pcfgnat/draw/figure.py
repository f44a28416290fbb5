"""Scenes as PNG and PDF, drawn with matplotlib (extra `train`)."""

import io
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from pcfgnat.draw.scene import DARK, LIGHT, Box, Label, Palette, Scene, Stroke, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

DPI = 96.0  # a unit of a scene is a pixel at scale 1
POINT = 72 / DPI
MOST_PIXELS = 2**16 - 1
MOST_POINTS = 14_400  # 200 inches, more than which many readers refuse
Colour = str | tuple[float, float, float, float]
ALIGNMENTS: dict[str, Literal["left", "center", "right"]] = {
    "start": "left",
    "middle": "center",
    "end": "right",
}
FONT = "DejaVu Sans"  # comes with matplotlib


def scene_png(scene: Scene, theme: Theme = "auto", scale: float = 2.0) -> bytes:
    """Draw a scene with `scale` pixels for each of its own; `auto` is light here."""
    _require_matplotlib("a PNG")
    if max(scene.width, scene.height) * scale > MOST_PIXELS:
        raise ValueError(
            f"a PNG must have at most {MOST_PIXELS} pixels on a side, got "
            f"{scene.width * scale:.0f} by {scene.height * scale:.0f}: draw fewer sentences, or SVG"
        )
    return _saved(_figure(scene, theme, DPI * scale), "png", {"Software": None})


def scene_pdf(scene: Scene, theme: Theme = "auto") -> bytes:
    """Draw a scene on one page of its own size, with text that can be searched; `auto` is light here."""
    _require_matplotlib("a PDF")
    if max(scene.width, scene.height) * POINT > MOST_POINTS:
        raise ValueError(
            f"a PDF must have at most {MOST_POINTS} points on a side, got "
            f"{scene.width * POINT:.0f} by {scene.height * POINT:.0f}: draw fewer sentences, or SVG"
        )
    return _saved(_figure(scene, theme, 72.0), "pdf", {"CreationDate": None, "Title": scene.description})


def _figure(scene: Scene, theme: Theme, dpi: float) -> "Figure":
    from matplotlib.figure import Figure

    palette = DARK if theme == "dark" else LIGHT
    figure = Figure(figsize=(scene.width / DPI, scene.height / DPI), dpi=dpi, facecolor=palette.paper)
    fonts = [FONT, *_fallbacks(_characters(scene))]
    for stroke in scene.strokes:
        _draw_stroke(figure, scene, stroke, palette)
    for box in scene.boxes:
        _draw_box(figure, scene, box, palette, fonts)
    for label in scene.labels:
        _draw_label(figure, scene, label, palette, fonts)
    return figure


def _saved(figure: "Figure", form: str, metadata: dict[str, str | None]) -> bytes:
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with _quiet(), rc_context({"pdf.fonttype": 42}):  # TrueType: the default's letters are drawings
        figure.savefig(buffer, format=form, facecolor=figure.get_facecolor(), metadata=metadata)
    return buffer.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence matplotlib's warnings about fonts: `missing_characters` reports what matters."""
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            yield
    finally:
        logger.setLevel(level)


def missing_characters(scene: Scene) -> str:
    """Return the characters that no font of this machine can draw in a PNG or PDF."""
    _require_matplotlib("a PNG or PDF")
    wanted = _characters(scene)
    covered = _covered(FONT, wanted)
    for name in _fallbacks(wanted):
        covered |= _covered(name, wanted)
    return "".join(sorted(wanted - covered))


def _require_matplotlib(what: str) -> None:
    if find_spec("matplotlib") is None:
        raise ValueError(f"{what} needs matplotlib: pip install 'pcfgnat[draw]', or draw an SVG")


def _draw_stroke(figure: "Figure", scene: Scene, stroke: Stroke, palette: Palette) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    move, line, curve = Path.MOVETO, Path.LINETO, Path.CURVE4
    codes = [move] + [curve if stroke.curved else line] * (len(stroke.points) - 1)
    path = Path([_place(scene, x, y) for x, y in stroke.points], codes)
    figure.add_artist(
        PathPatch(
            path,
            fill=False,
            edgecolor=palette.of(stroke.role),
            alpha=stroke.opacity,
            linewidth=stroke.width * POINT,
            joinstyle="round",
            transform=_pixels(figure),
        )
    )


def _draw_box(figure: "Figure", scene: Scene, box: Box, palette: Palette, fonts: list[str]) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    colour = palette.of(box.role)
    points = [_place(scene, x, y) for x, y in _outline(box)]
    codes = [Path.MOVETO, *([Path.LINETO] + [Path.CURVE4] * 3) * 4]
    outline = Path(points, codes)
    if box.opaque:
        paper = PathPatch(outline, facecolor=palette.paper, linewidth=0, transform=_pixels(figure))
        figure.add_artist(paper)
    figure.add_artist(
        PathPatch(
            outline,
            facecolor=to_rgba(colour, box.fill_opacity),
            edgecolor=to_rgba(colour, box.border_opacity),
            linewidth=1.2 * POINT,
            linestyle=(0, (3, 3)) if box.hollow else "solid",
            transform=_pixels(figure),
        )
    )
    ink = palette.muted if box.hollow else palette.ink
    label = Label(box.x, box.y + 0.35 * box.size, box.text, box.size, "middle", strong=box.role == "chain")
    _draw_text(figure, scene, label, to_rgba(ink, box.text_opacity), fonts)


def _outline(box: Box) -> list[tuple[float, float]]:
    """Go around a box: a line and a quarter of a circle at each corner."""
    x, y, radius = box.width / 2, box.height / 2, box.radius
    handle = radius * 0.4477  # 1 - 0.5523: with it a curve is a circle to the eye
    points = [(box.x - x, box.y + y - radius)]
    for right, down, along in ((-1, -1, 0), (1, -1, 1), (1, 1, 0), (-1, 1, 1)):
        corner = (box.x + right * x, box.y + down * y)
        upright = [(0.0, radius), (0.0, handle), (handle, 0.0), (radius, 0.0)]
        for dx, dy in reversed(upright) if along else upright:
            points.append((corner[0] - right * dx, corner[1] - down * dy))
    return points


def _draw_label(figure: "Figure", scene: Scene, label: Label, palette: Palette, fonts: list[str]) -> None:
    _draw_text(figure, scene, label, palette.ink if label.strong else palette.muted, fonts)


def _draw_text(figure: "Figure", scene: Scene, label: Label, colour: Colour, fonts: list[str]) -> None:
    from matplotlib.text import Text

    x, y = _place(scene, label.x, label.y)
    figure.add_artist(
        Text(
            x,
            y,
            label.text,
            color=colour,
            fontfamily=fonts,
            fontsize=label.size * POINT,
            fontweight="bold" if label.strong else "normal",
            horizontalalignment=ALIGNMENTS[label.anchor],
            verticalalignment="baseline",
            parse_math=False,
            transform=_pixels(figure),
        )
    )


def _pixels(figure: "Figure") -> "Affine2D":
    from matplotlib.transforms import Affine2D

    return Affine2D().scale(figure.dpi / DPI)


def _place(scene: Scene, x: float, y: float) -> tuple[float, float]:
    """matplotlib's y goes up."""
    return x, scene.height - y


def _characters(scene: Scene) -> set[str]:
    texts = [*(box.text for box in scene.boxes), *(label.text for label in scene.labels)]
    return {character for text in texts for character in text}


def _fallbacks(wanted: Iterable[str]) -> list[str]:
    """Choose installed fonts for what the first one lacks, those that have most of it first."""
    missing = frozenset(wanted) - _covered(FONT, wanted)
    names: list[str] = []
    offers = {name: _covered(name, missing) for name in _installed()} if missing else {}
    while any(offer & missing for offer in offers.values()):
        names.append(max(offers, key=lambda name: len(offers[name] & missing)))
        missing -= offers[names[-1]]
    return names


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    """Fonts by name, and their files, but those of coloured pictures and of boxes for everything."""
    from matplotlib.font_manager import fontManager

    unusable = ("Color", "Last Resort")
    return {  # of several files of one name the last one stays, upright and regular
        entry.name: entry.fname
        for entry in sorted(fontManager.ttflist, key=lambda e: (e.style == "normal", e.weight == 400))
        if not any(word in entry.name for word in unusable)
    }


def _covered(name: str, wanted: Iterable[str]) -> frozenset[str]:
    """Return the characters that a font has; one that cannot be read has nothing to offer."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(_installed()[name])
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(character for character in wanted if font.get_char_index(ord(character)))
