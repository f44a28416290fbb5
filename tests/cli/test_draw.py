"""The command `draw`: from text and from what `translate --json` prints."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pcfgnat.cli import main
from pcfgnat.draw import draw_terminal, tree_scene
from pcfgnat.translator import TranslateOptions, Translator
from tests.cli.conftest import World
from tests.cli.test_commands import Capture, error, feed, out, written
from tests.draw.trees import weather

TEXT = "Der Bär läuft."
NODE = ".//*[@data-node]"


def translated(capsys: Capture, world: World, *options: str) -> str:
    return out(capsys, "translate", "--json", "--model", world.grammar, TEXT, *options)


def test_a_text_becomes_a_picture(world: World, tmp_path: Path, capsys: Capture) -> None:
    for name in ("tree.svg", "tree.png", "tree.pdf", "tree.tex", "tree.dot", "tree.txt"):
        assert out(capsys, "draw", TEXT, "--model", world.grammar, "--output", tmp_path / name) == ""
    tree = Translator.load(world.grammar)(TEXT).tree
    assert tree is not None
    root = ElementTree.parse(tmp_path / "tree.svg").getroot()
    assert [int(node.attrib["data-node"]) for node in root.findall(NODE)] == list(tree.nodes)
    assert TEXT in "".join(root.itertext())
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "tree.pdf").read_bytes().startswith(b"%PDF")
    assert r"\begin{forest}" in (tmp_path / "tree.tex").read_text(encoding="utf-8")
    assert (tmp_path / "tree.dot").read_text(encoding="utf-8").startswith("digraph")
    assert draw_terminal(tree.to_dict()) in (tmp_path / "tree.txt").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("*.partial"))


def test_json_gives_the_same_picture_as_the_text(
    world: World, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = translated(capsys, world)
    file = written(tmp_path / "lines.json", line.strip(), "")
    from_text = out(capsys, "draw", TEXT, "--model", world.grammar, "--format", "svg")
    assert out(capsys, "draw", "--json", file, "--format", "svg") == from_text
    feed(monkeypatch, line.encode())
    assert out(capsys, "draw", "--json", "-", "--format", "svg") == from_text


def test_a_tree_alone_is_enough(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path / "tree.json", json.dumps(weather()))
    assert draw_terminal(weather()) in out(capsys, "draw", "--json", file)


def test_the_best_translations_stand_below_each_other(world: World, tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path / "lines.json", translated(capsys, world, "--nbest", "3").strip())
    drawn = out(capsys, "draw", "--json", file, "--nbest", "3", "--format", "svg")
    found = Translator.load(world.grammar, options=TranslateOptions(results=3))(TEXT)
    text = "".join(ElementTree.fromstring(drawn).itertext())
    assert len(found.candidates) == 3
    places = [text.index(f"{rank}. ") for rank in (1, 2, 3)]
    assert places == sorted(places)
    assert f"{found.score:.2f}".removeprefix("-") in text
    nodes = ElementTree.fromstring(drawn).findall(NODE)
    assert len(nodes) == sum(len(candidate.tree or ()) for candidate in found.candidates)
    only = out(capsys, "draw", "--json", file, "--format", "svg")
    assert len(ElementTree.fromstring(only).findall(NODE)) == len(found.tree or ())


def test_translate_draws_the_tree_of_every_candidate(world: World, capsys: Capture) -> None:
    found = Translator.load(world.grammar, options=TranslateOptions(results=3))(TEXT)
    drawn = out(capsys, "translate", "--model", world.grammar, "--nbest", "3", "--tree", TEXT)
    assert len(found.candidates) == 3
    rest = drawn
    for candidate in found.candidates:
        assert candidate.tree is not None
        line, picture = (
            f"1\t{candidate.score:.4f}\t{candidate.text}\n",
            draw_terminal(candidate.tree.to_dict()),
        )
        assert rest.startswith(f"{line}\n{picture}\n\n")
        rest = rest.removeprefix(f"{line}\n{picture}\n\n")
    assert rest == ""


def test_translate_draws_every_part_of_every_candidate(world: World, capsys: Capture) -> None:
    text = f"{TEXT} " * 12
    found = Translator.load(world.grammar, options=TranslateOptions(results=2))(text)
    assert len(found.parts) > 1
    trees = [found.trees_of(rank) for rank in range(2)]
    assert [len(row) for row in trees] == [len(found.parts)] * 2
    assert main(["translate", "--model", str(world.grammar), "--nbest", "2", "--tree", text]) == 0
    drawn = capsys.readouterr().out
    places = [drawn.index(draw_terminal(tree.to_dict())) for tree in (trees[0][0], trees[1][0])]
    assert drawn.index("1\t") < places[0] < drawn.index("\n1\t") < places[1]


def test_a_long_text_is_drawn_in_parts(world: World, capsys: Capture) -> None:
    assert main(["draw", "--model", str(world.grammar), "--format", "dot", f"{TEXT} " * 12]) == 0
    captured = capsys.readouterr()
    assert "split into" in captured.err
    assert captured.out.count("digraph") > 1


def test_a_lattice(world: World, tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "lattice.svg"
    out(capsys, "draw", TEXT, "--model", world.grammar, "--lattice", "--output", picture)
    root = ElementTree.parse(picture).getroot()
    classes = {node.attrib["class"] for node in root.findall(NODE)}
    assert {"node chain", "node unvisited"} <= classes
    used = Translator.load(world.grammar)(TEXT).tree
    assert len(root.findall(NODE)) > len(used or ())


def test_a_lattice_in_every_format(world: World, tmp_path: Path, capsys: Capture) -> None:
    for name in ("l.png", "l.pdf", "l.tex", "l.dot", "l.txt"):
        out(capsys, "draw", TEXT, "--model", world.grammar, "--lattice", "--output", tmp_path / name)
    tree = Translator.load(world.grammar)(TEXT).tree
    assert tree is not None
    assert (tmp_path / "l.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "l.pdf").read_bytes().startswith(b"%PDF")
    total = (tmp_path / "l.dot").read_text(encoding="utf-8").count("[label=")
    assert total > len(tree)
    assert (tmp_path / "l.tex").read_text(encoding="utf-8").count(r"\node[box") == total
    text = (tmp_path / "l.txt").read_text(encoding="utf-8")
    assert text.startswith(f"{TEXT}\n")
    assert text.count("●") == len(tree)
    assert text.count("●") + text.count("○") == total


def test_long_captions_and_sentences_are_wrapped(world: World, capsys: Capture) -> None:
    text = "Der Bär läuft und läuft und läuft und läuft."
    options = ("draw", text, "--model", world.grammar, "--width", "220")
    latex = out(capsys, *options, "--format", "latex")
    assert latex.count(r"\begin{forest}") > 1
    assert latex.count(r"\sffamily\small") > 2
    dot = out(capsys, *options, "--format", "dot")
    assert re.search(r'label="[^"]*\\l[^"]*\\l"', dot)
    assert len({place.split(",")[1] for place in re.findall(r'pos="([^" ]*)"', dot)}) > 1


def test_help_reads_well(capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["draw", "--help"])
    text = capsys.readouterr().out
    assert "usage: pcfgnat draw" in text
    assert max(map(len, text.splitlines())) <= 112


def test_width_and_theme(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path / "tree.json", json.dumps(weather()))
    narrow = out(capsys, "draw", "--json", file, "--format", "svg", "--width", "300", "--theme", "dark")
    assert float(ElementTree.fromstring(narrow).attrib["width"]) > 300  # the legend is wider
    rows = tree_scene(weather(), page=300)
    assert narrow.count('class="edge chain"') == sum(s.role == "chain" for s in rows.strokes)
    assert "@media" not in narrow
    columns = out(capsys, "draw", "--json", file, "--width", "40")
    assert max(map(len, columns.splitlines())) <= 40


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: expected an object with a tree, as `pcfgnat translate --json` prints it, got no JSON"),
        (
            "[1, 2]",
            "line 2: expected an object with a tree, as `pcfgnat translate --json` prints it, got list",
        ),
        ('{"text": "x"}', "line 2: expected an object with a tree, .* got text"),
        ('{"tree": 5}', "line 2: a tree must be an object, got int"),
        ('{"nodes": []}', "line 2: a tree must have nodes, got none"),
        ('{"nodes": [{"node": 1}]}', "line 2: entry 0 of a tree's nodes must have 'main_chain', got node"),
        ('{"parts": 3}', "line 2: 'parts' must be a list of objects, got 3"),
        ("[" * 10**5, "line 2: expected an object .* nested too deeply|no JSON"),
    ],
)
def test_broken_json_is_told_with_its_line(
    line: str, complaint: str, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "lines.json", json.dumps(weather()), line)
    message = error(capsys, "draw", "--json", file, "--output", tmp_path / "out.svg")
    assert re.search(complaint, message), message
    assert str(file) in message
    assert not (tmp_path / "out.svg").exists()


def test_what_cannot_be_drawn(world: World, tmp_path: Path, capsys: Capture) -> None:
    assert "builds none" in error(capsys, "draw", TEXT, "--model", world.teacher)
    assert "either texts or --json" in error(capsys, "draw")
    assert "got both" in error(capsys, "draw", TEXT, "--json", "-")
    assert "must end in .svg" in error(capsys, "draw", TEXT, "--output", tmp_path / "tree.gif")
    assert "--lattice needs texts" in error(capsys, "draw", TEXT, "--lattice", "--nbest", "2")
    assert "at least 200 wide" in error(
        capsys, "draw", TEXT, "--model", world.grammar, "--format", "svg", "--width", "10"
    )
    empty = written(tmp_path / "lines.json", '{"source": "", "text": "", "score": 0.0, "pieces": []}')
    assert main(["draw", "--json", str(empty)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"pcfgnat: {empty} line 1 has no translation to draw",
        "pcfgnat: error: there must be something to draw, got no tree",
    ]


@pytest.mark.skipif(shutil.which("dot") is None, reason="no Graphviz here")
def test_graphviz_reads_several_trees(world: World, tmp_path: Path, capsys: Capture) -> None:
    drawn = out(capsys, "draw", TEXT, "Frau Müller übt.", "--model", world.grammar, "--format", "dot")
    done = subprocess.run(["dot", "-Tplain"], input=drawn, capture_output=True, text=True, check=True)
    assert done.stdout.count("stop") == 2
