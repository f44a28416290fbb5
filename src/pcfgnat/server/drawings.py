"""Pictures of the trees in an answer."""

from collections.abc import Iterator, Sequence
from typing import Any

from pcfgnat.draw import tree_latex, tree_svg
from pcfgnat.server.schemas import Drawing


def add_drawings(translations: Sequence[dict[str, Any]], wanted: Sequence[Drawing], width: int) -> None:
    """Put the pictures that are wanted beside every tree."""
    for holder in _holders(translations):
        if "svg" in wanted:
            holder["svg"] = tree_svg(holder["tree"], page=width)
        if "latex" in wanted:
            holder["latex"] = tree_latex(holder["tree"])


def _holders(translations: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Everything that has a tree: translations, their parts, and the alternatives of both."""
    pending = list(translations)
    while pending:
        item = pending.pop()
        pending += [*item.get("parts", ()), *item.get("alternatives", ())]
        if "tree" in item:
            yield item
