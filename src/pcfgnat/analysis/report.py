"""What an analysis gives: Markdown for people, JSON for programs, and a picture."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pcfgnat.storage.files import write_atomically

NOTHING = "–"  # noqa: RUF001 (a dash, as in print)
COLOURS = ("#1f5fa8", "#d1693a", "#3a8f5d", "#8a5fbf", "#b3912f", "#6b6b6b")
MARKERS = ("o", "s", "^", "D", "v", "P")
MISSING = "pictures need matplotlib: pip install 'pcfgnat[analysis]'"


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first `left` columns are flush left."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def markdown(self) -> str:
        """Draw a table that is readable in a terminal, too."""
        cells = [[cell.replace("|", "\\|") for cell in row] for row in (self.header, *self.rows)]
        widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
        rule = ["-" * width if i < self.left else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
        lines = [cells[0], rule, *cells[1:]]
        return "\n".join(f"| {' | '.join(map(self._aligned, count(), line, widths))} |" for line in lines)

    def _aligned(self, column: int, cell: str, width: int) -> str:
        return cell.ljust(width) if column < self.left else cell.rjust(width)


@dataclass(frozen=True)
class Report:
    """The result of an analysis: `name` is that of its files, `draw` fills a matplotlib figure of `size`."""

    name: str
    text: str
    data: dict[str, Any]
    draw: Callable[[Any], None]
    size: tuple[float, float] = (11.0, 4.0)

    def write(self, directory: Path) -> list[Path]:
        """Write NAME.md, NAME.json and NAME.png; equal results give equal bytes."""
        picture = self.picture()
        directory.mkdir(parents=True, exist_ok=True)
        plain = json.dumps(self.data, ensure_ascii=False, indent=1, allow_nan=False)
        contents = {"md": f"{self.text}\n".encode(), "json": f"{plain}\n".encode(), "png": picture}
        paths = [directory / f"{self.name}.{ending}" for ending in contents]
        for path, content in zip(paths, contents.values(), strict=True):
            write_atomically(path, content)
        return paths

    def picture(self) -> bytes:
        """Draw, and return a PNG."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ValueError(MISSING) from error
        figure = Figure(figsize=self.size, layout="constrained")
        FigureCanvasAgg(figure)
        self.draw(figure)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=130, metadata={"Software": None})
        return content.getvalue()


def number(value: int | float | None, digits: int) -> str:
    """Show a figure, or that there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """Show a share."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def left_out_text(name: str, left_out: Sequence[dict[str, Any]], shown: int = 3) -> str:
    """Say which pairs were left out and why; the JSON file has them all."""
    if not left_out:
        return f"{name}: no pair left out."
    some = "; ".join(f"line {row['line']}: {row['reason']}" for row in left_out[:shown])
    more = " …" if len(left_out) > shown else ""
    return f"{name}: {len(left_out)} left out ({some}{more})."
