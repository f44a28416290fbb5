import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.draw import draw_lattice_terminal
from tests.draw.trees import some_lattice


def columns_of(line: str) -> int:
    return sum(
        1 + (unicodedata.east_asian_width(c) in ("W", "F")) for c in line if not unicodedata.combining(c)
    )


@settings(max_examples=30)
@given(st.integers(0, 3), st.integers(0, 10**6), st.integers(20, 140), st.booleans())
def test_every_node_has_a_line(depth: int, seed: int, width: int, colour: bool) -> None:
    lattice = some_lattice(depth, seed)
    drawn = draw_lattice_terminal(lattice, width, colour)
    assert ("\x1b" in drawn) == colour
    head, *lines = re.sub(r"\x1b\[\d+m", "", drawn).splitlines()
    assert head.split()[0] == "node"
    assert [int(line.split()[0]) for line in lines] == [node["node"] for node in lattice["nodes"]]
    assert ["●" in line for line in lines] == [node["visited"] for node in lattice["nodes"]]
    assert all(columns_of(line) <= width for line in [head, *lines])
    for line, node in zip(lines, lattice["nodes"], strict=True):
        assert ("│" in line) == (not node["main_chain"])


def test_what_a_line_says() -> None:
    lattice = some_lattice(1, seed=11)
    taken = {node["node"]: next((r for r in node["rules"] if r["chosen"]), None) for node in lattice["nodes"]}
    for line in draw_lattice_terminal(lattice, 200).splitlines()[1:]:
        node = lattice["nodes"][int(line.split()[0]) - 1]
        assert f"{100 * node['tokens'][0]['probability']:.1f} %" in line
        rule = taken[node["node"]]
        left = f"↙{rule['left']} " if rule and rule["left"] else ""
        assert (f"* {left}↘{rule['right']} " in line) if rule else "*" not in line
        assert line.count("↘") == len(node["rules"])


def test_wide_and_dangerous_words() -> None:
    lattice = some_lattice(0, seed=1)
    for node, word in zip(lattice["nodes"], ["<s>", "▁你们需要", "\x1b[2J", "▁" + "long" * 20], strict=False):
        node["word"] = node["tokens"][0]["word"] = word
    lines = draw_lattice_terminal(lattice, 80).splitlines()
    assert all(columns_of(line) <= 80 for line in lines)
    assert "\x1b" not in "".join(lines)
    places = {columns_of(line[: line.index("%")]) for line in lines if "%" in line}
    assert len(places) == 1  # the column of percentages


def test_complaints() -> None:
    with pytest.raises(ValueError, match="width must be at least 20, got 10"):
        draw_lattice_terminal(some_lattice(0, 0), 10)
    with pytest.raises(ValueError, match="a lattice must have nodes, got none"):
        draw_lattice_terminal({"nodes": [], "prefix_depth": 0})
