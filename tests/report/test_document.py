import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pcfgnat.report import Report
from pcfgnat.report.figure import FigureError, new_figure, plain_logarithm, png


def drawn(figure: Any) -> None:
    axes = figure.subplots()
    axes.plot([1, 10, 100], [1, 2, 3])
    axes.set_xscale("log")
    plain_logarithm(axes.xaxis)


def test_equal_results_give_equal_files(tmp_path: Path) -> None:
    report = Report("name", "# Text", {"a": 1.5}, drawn)
    paths = report.write(tmp_path / "new")
    assert [path.name for path in paths] == ["name.md", "name.json", "name.png"]
    assert json.loads(paths[1].read_text()) == {"a": 1.5}
    before = [path.read_bytes() for path in paths]
    report.write(tmp_path / "new")
    assert [path.read_bytes() for path in paths] == before


def test_what_is_around_the_axes_can_be_kept() -> None:
    figure = new_figure(2.0, 1.0)
    figure.subplots().set_title("title")
    assert png(figure, dpi=50, tight=True) != png(figure, dpi=50)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(FigureError, match=r"figures need matplotlib: pip install 'pcfgnat\[analysis\]'"):
        new_figure(1.0, 1.0)
