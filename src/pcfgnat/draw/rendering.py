"""Items as one file of some format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pcfgnat.draw.dot import scene_dot
from pcfgnat.draw.figure import missing_characters, scene_pdf, scene_png
from pcfgnat.draw.items import Item
from pcfgnat.draw.latex import TEXT_PAGE, latex_document, lattice_latex, tree_latex
from pcfgnat.draw.lattice import lattice_scene
from pcfgnat.draw.lattice_terminal import draw_lattice_terminal
from pcfgnat.draw.scene import Scene, Theme, legend, stacked
from pcfgnat.draw.svg import scene_svg
from pcfgnat.draw.terminal import draw_terminal
from pcfgnat.draw.tree import PAGE, tree_scene

Format = Literal["svg", "png", "pdf", "latex", "dot", "terminal"]
FORMATS: tuple[Format, ...] = get_args(Format)
TERMINAL = 100  # columns
LEGEND = {"chain": "main chain", "prefix": "prefix tree", "unvisited": "not used"}


@dataclass(frozen=True)
class Rendering:
    """How items are drawn.

    lattice: the items are lattices, not trees
    width:   of the page in pixels, or of the terminal in columns; without it, what suits the format
    colour:  of a terminal that can show it
    """

    format: Format
    lattice: bool = False
    width: int | None = None
    theme: Theme = "auto"
    colour: bool = False

    def render(self, items: Sequence[Item]) -> bytes:
        """Return the contents of a file with all items below each other."""
        if not items:
            raise ValueError("there must be something to draw, got no tree")
        match self.format:
            case "terminal":
                return self._terminal(items).encode()
            case "latex":
                return self._latex(items).encode()
            case "dot":
                return "\n".join(map(scene_dot, self._scenes(items))).encode()
            case "svg":
                return scene_svg(self._picture(items), self.theme).encode()
            case "png":
                return scene_png(self._picture(items), self.theme)
            case "pdf":
                return scene_pdf(self._picture(items), self.theme)

    def missing_characters(self, items: Sequence[Item]) -> str:
        """Return the characters that will be boxes, for no font of this machine has them."""
        return missing_characters(self._picture(items)) if self.format in ("png", "pdf") else ""

    def _scenes(self, items: Sequence[Item]) -> list[Scene]:
        scene = lattice_scene if self.lattice else tree_scene
        return [scene(item.data, item.caption, self.width or PAGE) for item in items]

    def _picture(self, items: Sequence[Item]) -> Scene:
        scenes = self._scenes(items)
        there = {box.role for scene in scenes for box in scene.boxes}
        return stacked([*scenes, legend([(role, name) for role, name in LEGEND.items() if role in there])])

    def _latex(self, items: Sequence[Item]) -> str:
        page = self.width or TEXT_PAGE
        environment = lattice_latex if self.lattice else tree_latex
        return latex_document([(item.caption, environment(item.data, page)) for item in items], page)

    def _terminal(self, items: Sequence[Item]) -> str:
        draw = draw_lattice_terminal if self.lattice else draw_terminal
        width = self.width or PAGE
        return (
            "\n\n".join(f"{item.caption}\n\n{draw(item.data, width, self.colour)}" for item in items) + "\n"
        )
