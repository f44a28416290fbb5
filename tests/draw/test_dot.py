import shutil
import subprocess

import pytest

from pcfgnat.draw import scene_dot, tree_scene
from pcfgnat.draw.dot import quoted
from tests.draw.trees import chain, weather

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
    assert 'label="The \\"source\\""' in text


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
