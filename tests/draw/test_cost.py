"""The cost of a picture grows with the length of its sentence, not with the square of it."""

import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from pcfgnat.draw import draw_terminal, scene_dot, scene_svg, tree_latex, tree_scene
from pcfgnat.structures import ParseTree, SupportTree

PICTURES: dict[str, Callable[[dict[str, Any]], str]] = {
    "terminal": lambda tree: draw_terminal(tree, width=40),
    "svg": lambda tree: scene_svg(tree_scene(tree, "word " * len(tree["nodes"]), page=300)),
    "dot": lambda tree: scene_dot(tree_scene(tree, page=300)),
    "latex": tree_latex,
}


def long_tree(blocks: int) -> dict[str, Any]:
    """A sentence of many words, every second one in a prefix tree, every third one of two pieces."""
    nodes = (1, *range(2, 2 * blocks), 2 * blocks + 1)
    chances = (math.log(0.5),) * len(nodes)
    pieces = tuple("en" if i % 3 == 2 else "▁Wort" for i in range(len(nodes) - 2))
    words = ("<s>", *pieces, "</s>")
    return ParseTree(SupportTree(blocks + 1, 1), nodes, nodes, chances, chances, words).to_dict()


def steps(work: Callable[[], object]) -> int:
    """Count the lines that some work takes; each turn of a comprehension is one."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_count_tells_a_square_from_a_line() -> None:
    line = [steps(lambda n=n: [i + 1 for i in range(n)]) for n in (100, 400)]  # type: ignore[misc]
    square = [steps(lambda n=n: [i + 1 for i in range(n * n)]) for n in (20, 80)]  # type: ignore[misc]
    assert line[1] < 5 * line[0]
    assert square[1] > 10 * square[0]


@pytest.mark.parametrize("form", PICTURES)
def test_cost_is_about_linear(form: str) -> None:
    draw = PICTURES[form]
    small, large = long_tree(20), long_tree(80)
    draw(small)  # fills what is remembered
    assert steps(lambda: draw(large)) < 5 * steps(lambda: draw(small))


def test_trees_too_deep_for_the_terminal_are_refused() -> None:
    count = 70
    rows = [
        {
            "node": i,
            "token": i,
            "left": None,
            "right": i + 1 if 0 < i < count - 1 else None,
            "main_chain": False,
        }
        for i in range(count)
    ]
    rows[0].update(main_chain=True, right=count)
    rows[-1].update(right=None)
    rows.append({"node": count, "token": 0, "left": 1, "right": None, "main_chain": True})
    with pytest.raises(ValueError, match="a tree in the terminal must have at most 64 levels, got 69"):
        draw_terminal({"nodes": rows})
