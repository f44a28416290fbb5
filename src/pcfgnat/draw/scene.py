"""A picture before it is drawn: boxes, lines and labels at their places, whatever the format.

Layouts make scenes, and `svg` and `png` draw them. Lengths are CSS pixels, y goes down.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pcfgnat.draw.text import text_width

FONT_SIZE = 15.0
SMALL = 12.0
BOLD = 1.1  # bold letters are wider

Role = Literal["chain", "prefix", "end", "unvisited", "plain"]
Theme = Literal["auto", "light", "dark"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A node around its centre; `strength` from 0 to 1 is how strongly it is shaded."""

    x: float
    y: float
    width: float
    height: float
    text: str
    role: Role
    strength: float
    title: str = ""
    node: int | None = None
    position: int | None = None
    size: float = FONT_SIZE
    opaque: bool = False  # whether it hides lines that run behind it

    @property
    def hollow(self) -> bool:
        """Whether it has a dashed border and no colour: ends of the sentence, and what was not used."""
        return self.role in ("end", "unvisited")

    @property
    def radius(self) -> float:
        """Of the corners: prefix trees are round."""
        return min(self.height, self.width) / 2 if self.role == "prefix" else 6.0

    @property
    def fill_opacity(self) -> float:
        """How strong its colour is."""
        return 0.0 if self.hollow else _between(self.strength, 0.04, 0.42)

    @property
    def text_opacity(self) -> float:
        """How strong its text is: what was not used is faint."""
        return _between(self.strength, 0.55, 1.0) if self.role == "unvisited" else 1.0

    @property
    def border_opacity(self) -> float:
        """How strong its border is."""
        return _between(self.strength, 0.4, 1.0)


@dataclass(frozen=True)
class Stroke:
    """A line through points, or a curve: a first point, then two control points and an end, once or more.

    `ends` names the nodes that it joins.
    """

    points: tuple[Point, ...]
    role: Role
    strength: float
    curved: bool = False
    title: str = ""
    ends: tuple[int, int] | None = None

    @property
    def opacity(self) -> float:
        """How strong its colour is."""
        return _between(self.strength, 0.2, 1.0)

    @property
    def width(self) -> float:
        """How thick it is."""
        return _between(self.strength, 1.1, 2.8)


@dataclass(frozen=True)
class Label:
    """A line of text on a base line; `anchor` says which part of it stands at x."""

    x: float
    y: float
    text: str
    size: float = SMALL
    anchor: Literal["start", "middle", "end"] = "start"
    strong: bool = False

    @property
    def right(self) -> float:
        """Where a label that starts at x ends."""
        return self.x + text_width(self.text, self.size * (BOLD if self.strong else 1.0))


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn, lines first; `description` is for those who cannot see it."""

    width: float
    height: float
    strokes: tuple[Stroke, ...] = ()
    boxes: tuple[Box, ...] = ()
    labels: tuple[Label, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class Palette:
    """Colours by name."""

    paper: str
    ink: str
    muted: str
    chain: str
    prefix: str

    def of(self, role: Role) -> str:
        """Colour of the lines and boxes of a role."""
        return {"chain": self.chain, "prefix": self.prefix, "end": self.muted}.get(role, self.muted)


LIGHT = Palette(paper="#ffffff", ink="#1b2330", muted="#6b7686", chain="#2563c9", prefix="#c26a00")
DARK = Palette(paper="#12161d", ink="#e8ecf2", muted="#8e9aab", chain="#6aa6ff", prefix="#f2ab4a")


def stacked(scenes: Sequence[Scene], gap: float = 6.0) -> Scene:
    """Put scenes under each other."""
    if not scenes:
        raise ValueError("there must be something to draw, got nothing")
    strokes: list[Stroke] = []
    boxes: list[Box] = []
    labels: list[Label] = []
    down = 0.0
    for part in scenes:
        strokes += [replace(s, points=tuple((x, y + down) for x, y in s.points)) for s in part.strokes]
        boxes += [replace(box, y=box.y + down) for box in part.boxes]
        labels += [replace(label, y=label.y + down) for label in part.labels]
        down += part.height + gap
    return Scene(
        width=max(part.width for part in scenes),
        height=down - gap,
        strokes=tuple(strokes),
        boxes=tuple(boxes),
        labels=tuple(labels),
        description=" / ".join(part.description for part in scenes if part.description),
    )


def legend(roles: Sequence[tuple[Role, str]]) -> Scene:
    """Return a legend: what boxes of some roles are, and that shades are probabilities."""
    boxes, labels = [], []
    x = 16.0
    for role, name in roles:
        boxes.append(Box(x + 11, 12.0, 22.0, 14.0, "", role, 0.6))
        labels.append(Label(x + 28, 16.0, name))
        x = labels[-1].right + 22
    for i, strength in enumerate((0.0, 0.25, 0.5, 0.75, 1.0)):
        boxes.append(Box(x + 11 + 24 * i, 12.0, 22.0, 14.0, "", "chain", strength))
    labels.append(Label(x + 126, 16.0, "probability 0 to 100 %"))
    return Scene(labels[-1].right + 16, 30.0, boxes=tuple(boxes), labels=tuple(labels))


def _between(strength: float, low: float, high: float) -> float:
    return low + (high - low) * min(max(strength, 0.0), 1.0)
