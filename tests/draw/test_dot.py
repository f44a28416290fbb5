import shutil
import subprocess

import numpy as np
import pytest

from pcfgnat.draw import lattice_scene, scene_dot, tree_scene
from pcfgnat.draw.dot import POINTS, quoted
from pcfgnat.draw.scene import Point
from tests.draw.trees import chain, some_lattice, weather

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="no Graphviz here")


def plain(text: str) -> list[list[str]]:
    """What Graphviz understood, line by line."""
    done = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, check=True)
    assert not done.stderr
    return [line.split(" ") for line in done.stdout.splitlines()]


def test_nodes_and_edges() -> None:
    text = scene_dot(tree_scene(weather(), caption='The "source"'))
    assert '8 [label="heute"' in text
    assert "  9 -> 8 [" in text
    assert text.count("->") == 8
    assert 'label="The \\"source\\"\\l"' in text


def test_lines_of_a_caption_stay_apart() -> None:
    text = scene_dot(tree_scene(weather(), caption="The source.\nDie Übersetzung."))
    assert r'label="The source.\lDie Übersetzung.\l"' in text


def test_quoting() -> None:
    assert quoted('a"b\\n\n') == '"a\\"b\\\\n\\n"'


@needs_dot
def test_graphviz_keeps_the_layout() -> None:
    lines = plain(scene_dot(tree_scene(weather())))
    places = {line[1]: (float(line[2]), float(line[3])) for line in lines if line[0] == "node"}
    on_chain = [places[node] for node in ("1", "3", "5", "7", "9", "11", "15", "17")]
    assert max(y for _, y in on_chain) - min(y for _, y in on_chain) < 1e-3
    assert [x for x, _ in on_chain] == sorted(x for x, _ in on_chain)
    assert places["8"][1] < places["9"][1]
    assert places["7"][0] < places["8"][0] < places["9"][0]


@needs_dot
def test_graphviz_takes_any_character_for_itself() -> None:
    words = ["<s>", '"];x[label="', "\\N", "{a|b}", "<b>x</b>", "größe", "船", "</s>"]
    lines = plain(scene_dot(tree_scene(chain(words))))
    assert len([line for line in lines if line[0] == "node"]) == len(words)
    assert len([line for line in lines if line[0] == "edge"]) == len(words) - 1


@needs_dot
@pytest.mark.parametrize("page", [420, 2000])
def test_graphviz_keeps_the_arcs_of_a_lattice(page: int) -> None:
    scene = lattice_scene(some_lattice(2, seed=7), caption="a\nb", page=page)
    lines = plain(scene_dot(scene))
    nodes = {line[1]: (float(line[2]), float(line[3])) for line in lines if line[0] == "node"}
    first = scene.boxes[0]
    x, y = (72 / POINTS * value for value in nodes["1"])  # Graphviz counts inches from the lower left
    drawn = {}
    for line in lines:
        if line[0] == "edge":
            numbers = [72 / POINTS * float(number) for number in line[4 : 4 + 2 * int(line[3])]]
            places = zip(numbers[::2], numbers[1::2], strict=True)
            drawn[int(line[1]), int(line[2])] = [(a - x + first.x, first.y - b + y) for a, b in places]
    expected: dict[tuple[int, int], list[Point]] = {}
    for stroke in scene.strokes:
        assert stroke.ends is not None
        expected.setdefault(stroke.ends, []).extend(stroke.points)
    assert drawn.keys() == expected.keys()
    for ends, points in expected.items():
        assert np.array(drawn[ends]) == pytest.approx(np.array(points), abs=0.2)
    if page == 420:
        assert any(len(points) > 7 for points in drawn.values())  # arcs that go on in the next row


@needs_dot
def test_brackets_and_marks_are_background() -> None:
    scene = tree_scene(chain(["<s>", *["▁größ", "er", "▁船"] * 6, "</s>"]), page=400)
    text = scene_dot(scene)
    svg = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True)
    assert not svg.stderr
    assert svg.stdout.count(">größer<") == 6
    loose = sum(stroke.ends is None for stroke in scene.strokes)
    assert svg.stdout.count("<polyline") == loose > 6
    assert len([line for line in plain(text) if line[0] == "node"]) == len(scene.boxes)
