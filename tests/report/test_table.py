import pytest

from pcfgnat.report import NOTHING, Table, number, percent
from pcfgnat.report.table import milliseconds

TABLE = Table(["name", "BLEU", "s"], [["one", "9.5", "10"], ["a|b", NOTHING, "1"]], title="Systems")


def test_text_is_aligned_below_its_title() -> None:
    assert TABLE.text().splitlines() == ["Systems", "name  BLEU   s", "one    9.5  10", "a|b      \u2013   1"]
    assert Table(["x"], [["yes"]], left=0).text().splitlines() == ["  x", "yes"]


def test_markdown_is_aligned_and_bars_are_escaped() -> None:
    assert TABLE.markdown().splitlines() == [
        "**Systems**",
        "",
        "| name | BLEU |   s |",
        "| ---- | ---: | --: |",
        "| one  |  9.5 |  10 |",
        "| a\\|b |    \u2013 |   1 |",
    ]


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="a row must have 2 cells, got 1"):
        Table(["a", "b"], [["1"]])


def test_figures() -> None:
    assert (number(1.256, 2), number(None, 2), percent(0.1234), percent(None)) == (
        "1.26",
        NOTHING,
        "12.3 %",
        NOTHING,
    )
    assert [milliseconds(seconds) for seconds in (0.0012345, 0.012345, 0.12345)] == ["1.23", "12.3", "123"]
