"""Tables for the terminal and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

NOTHING = "–"  # noqa: RUF001 (a dash, as in print)


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first `left` columns are flush left, the others flush right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    title: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row must have {len(self.header)} cells, got {len(row)}")

    def text(self) -> str:
        """Return the table for a terminal, below its title."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = ["  ".join(self._aligned(row, widths)).rstrip() for row in (self.header, *self.rows)]
        return "\n".join([*([self.title] if self.title else []), *lines])

    def markdown(self) -> str:
        """Return Markdown that can be read in a terminal, too."""
        cells = [[cell.replace("|", "\\|") for cell in row] for row in (self.header, *self.rows)]
        widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
        rule = ["-" * width if i < self.left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
        lines = [f"| {' | '.join(self._aligned(line, widths))} |" for line in (cells[0], rule, *cells[1:])]
        return "\n".join([*([f"**{self.title}**", ""] if self.title else []), *lines])

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.ljust(width) if column < self.left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]


def number(value: int | float | None, digits: int) -> str:
    """Return a figure with so many digits, or a dash for none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """Return a share as a percentage, or a dash for none."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def milliseconds(seconds: float) -> str:
    """Return milliseconds with three significant digits."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
