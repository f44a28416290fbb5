"""Objectives and decoding know nothing of each other: a paper combines them, code does not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "pcfgnat"
ROOMS = [("objectives", "decoding"), ("decoding", "objectives")]


def imported(text: str, package: tuple[str, ...]) -> Iterator[str]:
    """Full names of all that a module of a package imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = [*base, *([node.module] if node.module else [])]
            yield from (".".join([*origin, alias.name]) for alias in node.names)


def reaches(name: str, room: str) -> bool:
    return f"{name}.".startswith(f"pcfgnat.{room}.")


@pytest.mark.parametrize(("room", "other"), ROOMS)
def test_they_never_import_each_other(room: str, other: str) -> None:
    files = sorted((PACKAGE / room).rglob("*.py"))
    assert len(files) > 3
    for file in files:
        package = ("pcfgnat", *file.relative_to(PACKAGE).parts[:-1])
        names = [*imported(file.read_text(encoding="utf-8"), package)]
        assert not [name for name in names if reaches(name, other)], file


@pytest.mark.parametrize(
    "line",
    [
        "from pcfgnat.decoding import Beam",
        "import pcfgnat.decoding.base as base",
        "from pcfgnat import decoding",
        "from ..decoding import base",
        "from .. import decoding",
        "def late():\n    from pcfgnat.decoding.slots import SlotGreedy",
    ],
)
def test_such_an_import_would_be_found(line: str) -> None:
    assert [name for name in imported(line, ("pcfgnat", "objectives")) if reaches(name, "decoding")]


@pytest.mark.parametrize("line", ["import decoding", "from pcfgnat.grammar import decoding"])
def test_others_are_not_taken_for_one(line: str) -> None:
    assert not [name for name in imported(line, ("pcfgnat", "objectives")) if reaches(name, "decoding")]
