"""Pictures of trees and lattices, from the plain data that `ParseTree.to_dict` and `Lattice.to_dict` give.

In the terminal words keep their order from left to right. The main chain is the upper line; where a word on
it has a prefix tree, that tree hangs from the line in front of the word:

    <bos>──You──┬────────need─┬────────boat──.──<eos>
               are───┐        a───┐
                   gonna        bigger

SVG, PNG, PDF and Graphviz's dot are drawn from one layout of the same kind, `tree_scene` or
`lattice_scene`, and so are lattices in LaTeX, where trees use the package forest.
"""

from collections.abc import Mapping
from typing import Any

from pcfgnat.draw.data import number_of
from pcfgnat.draw.dot import scene_dot
from pcfgnat.draw.figure import missing_characters, scene_pdf, scene_png
from pcfgnat.draw.html import score_text, translation_html
from pcfgnat.draw.items import Item, json_items, lattice_item, translation_items
from pcfgnat.draw.latex import TEXT_PAGE, latex_document, lattice_latex, tree_latex
from pcfgnat.draw.lattice import lattice_scene
from pcfgnat.draw.lattice_terminal import draw_lattice_terminal
from pcfgnat.draw.rendering import FORMATS, Rendering
from pcfgnat.draw.scene import Scene, Theme, legend, stacked
from pcfgnat.draw.svg import scene_svg, svg_style
from pcfgnat.draw.terminal import MIN_WIDTH, draw_terminal, text_cells
from pcfgnat.draw.text import safe
from pcfgnat.draw.tree import MIN_PAGE, PAGE, tree_scene

__all__ = [
    "FORMATS",
    "MIN_PAGE",
    "MIN_WIDTH",
    "PAGE",
    "TEXT_PAGE",
    "Item",
    "Rendering",
    "Scene",
    "Theme",
    "draw_lattice_terminal",
    "draw_terminal",
    "json_items",
    "latex_document",
    "lattice_item",
    "lattice_latex",
    "lattice_scene",
    "lattice_svg",
    "legend",
    "missing_characters",
    "number_of",
    "safe",
    "scene_dot",
    "scene_pdf",
    "scene_png",
    "scene_svg",
    "score_text",
    "stacked",
    "svg_style",
    "text_cells",
    "translation_html",
    "translation_items",
    "tree_latex",
    "tree_scene",
    "tree_svg",
]


def tree_svg(tree: Mapping[str, Any], caption: str = "", page: int = PAGE, theme: Theme = "auto") -> str:
    """Draw a tree as one self-contained <svg> element, on a page of some pixels' width."""
    return scene_svg(tree_scene(tree, caption, page), theme)


def lattice_svg(
    lattice: Mapping[str, Any], caption: str = "", page: int = PAGE, theme: Theme = "auto"
) -> str:
    """Draw a lattice in the same way."""
    return scene_svg(lattice_scene(lattice, caption, page), theme)
