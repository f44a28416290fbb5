"""A result as three files: Markdown for people, JSON for programs, and a figure."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcfgnat.report.figure import new_figure, png
from pcfgnat.storage.files import write_atomically


@dataclass(frozen=True)
class Report:
    """A result: `name` is that of its files, `draw` fills a matplotlib figure of `size` inches."""

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
        """Return the figure as a PNG."""
        figure = new_figure(*self.size)
        self.draw(figure)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        return png(figure)
