from pathlib import Path

import pytest

from pcfgnat.text import TextError
from pcfgnat.text.glossary import Term, read_glossary, terms_in

TERMS = (
    Term("house", "Gebäude"),
    Term("white house", "Weißes Haus"),
    Term("US", "USA"),
    Term("水", "Nass"),
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("The House of us.", ["Gebäude"]),
        ("white house, house!", ["Weißes Haus", "Gebäude"]),
        ("houses and a warehouse", []),
        ("in the US", ["USA"]),
        ("我喝水吧", ["Nass"]),
        ("", []),
    ],
)
def test_terms_are_whole_words_and_the_longest_wins(source: str, expected: list[str]) -> None:
    assert [term.target for term in terms_in(source, TERMS)] == expected


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("house\tGebäude\n\n White House \tWeißes Haus\n", encoding="utf-8")
    assert read_glossary(path) == (Term("house", "Gebäude"), Term("White House", "Weißes Haus"))


@pytest.mark.parametrize("line", ["house", "house\t", "\thouse", "a\tb\tc"])
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(f"a\tb\n{line}\n", encoding="utf-8")
    with pytest.raises(TextError, match=r"terms.tsv line 2 must be a source phrase, a tab and a target"):
        read_glossary(path)


def test_empty_terms_are_refused() -> None:
    with pytest.raises(ValueError, match="the target of a term must not be empty"):
        Term("a", " ")
