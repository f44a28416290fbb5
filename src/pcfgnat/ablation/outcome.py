"""What came of each cell under each decoding: table, CSV, JSON and picture."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from typing import Any, Literal

from pcfgnat.ablation.grid import Grid
from pcfgnat.report import NOTHING, Report, Table, number
from pcfgnat.report.figure import COLOURS, MARKERS

FIGURES = {  # column of the table: field and digits
    "BLEU": ("bleu", 2),
    "chrF": ("chrf", 2),
    "length ratio": ("length_ratio", 3),
    "repeated": ("repeated_words", 2),
    "missing": ("missing_words", 1),
    "sent./s": ("sentences_per_second", 1),
    "batch 1, ms": ("ms_alone", 2),
    "batch 32, ms": ("ms_together", 2),
    "valid BLEU": ("valid_bleu", 2),
    "steps": ("steps", 0),
    "hours": ("hours", 3),
}
NAMES = {"lambda": "λ"}


@dataclass(frozen=True)
class Outcome:
    """A cell under one decoding.

    settings:    values of all axes
    fingerprint: hash of the cell's training settings, by which a later call knows it again
    test:        what it was judged on
    hours:       of training, validation included
    repeated_words, missing_words: as `Scores` of the evaluation has them; none in results of older versions
    precision:   that of the model that was judged: float32 in torch, int8 exported
    ms_alone, ms_together: median milliseconds for a sentence, alone and in batches of 32; of exported models
    """

    cell: str
    settings: dict[str, Any]
    fingerprint: str
    test: str
    status: Literal["open", "done", "failed"]
    error: str = ""
    bleu: float | None = None
    chrf: float | None = None
    length_ratio: float | None = None
    repeated_words: float | None = None
    missing_words: float | None = None
    sentences_per_second: float | None = None
    ms_alone: float | None = None
    ms_together: float | None = None
    valid_bleu: float | None = None
    steps: int | None = None
    hours: float | None = None
    signatures: dict[str, str] = field(default_factory=dict)
    precision: Literal["float32", "int8"] = "float32"

    def answers(self, question: "Outcome") -> bool:
        """Whether this is the finished result of what is to be found out."""
        return self.status == "done" and self._asked == question._asked

    def failed(self, error: str) -> "Outcome":
        """Return that it could not be found out, and why."""
        return replace(self, status="failed", error=" ".join(error.split()))

    @property
    def _asked(self) -> tuple[str, dict[str, Any], str, str, str]:
        return self.cell, self.settings, self.fingerprint, self.test, self.precision


def ablation_report(grid: Grid, outcomes: Sequence[Outcome], others: Sequence[Outcome] = ()) -> Report:
    """Put all cells under each other; `others`, of earlier calls, are kept in the JSON only."""
    varied, figures = grid.varied, dict(FIGURES)
    if all(outcome.ms_alone is None for outcome in outcomes):
        figures = {name: own for name, own in FIGURES.items() if not name.endswith(", ms")}
    rows = [
        [*(str(outcome.settings[name]) for name in varied)]
        + [number(getattr(outcome, key), digits) for key, digits in figures.values()]
        + [outcome.status]
        for outcome in outcomes
    ]
    table = Table([*varied, *figures, "status"], rows, left=len(varied))
    fixed = ", ".join(f"{name}={values[0]}" for name, values in grid.axes.items() if len(values) == 1)
    tests = ", ".join(sorted({outcome.test for outcome in outcomes})) or NOTHING
    head = f"# Ablation of {grid.config}\n\njudged on {tests}{f'; all with {fixed}' if fixed else ''}"
    signatures = sorted({text for outcome in outcomes for text in outcome.signatures.values()})
    failures = [f"- failed: {_label(o, varied) or o.cell}: {o.error}" for o in outcomes if o.error]
    blocks = [head, table.markdown(), "\n".join([*failures, *(f"- {text}" for text in signatures)])]
    data = {
        "analysis": "ablation",
        "config": str(grid.config),
        "axes": {name: list(values) for name, values in grid.axes.items()},
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "others": [asdict(outcome) for outcome in others],
    }
    text = "\n\n".join(block for block in blocks if block)
    return Report("ablation", text, data, lambda figure: _draw(figure, grid, outcomes))


def to_csv(grid: Grid, outcomes: Sequence[Outcome]) -> str:
    """The same table for spreadsheets."""
    text = io.StringIO()
    keys = [key for key, _ in FIGURES.values()]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", *grid.axes, *keys, "status", "error"])
    for outcome in outcomes:
        figures = ["" if (value := getattr(outcome, key)) is None else value for key in keys]
        settings = [outcome.settings[name] for name in grid.axes]
        writer.writerow([outcome.cell, *settings, *figures, outcome.status, outcome.error])
    return text.getvalue()


def _draw(figure: Any, grid: Grid, outcomes: Sequence[Outcome]) -> None:
    """Draw BLEU and speed: over the first axis of numbers, a line for all else; bars if there is none."""
    done = [outcome for outcome in outcomes if outcome.status == "done"]
    numeric = [name for name in grid.varied if all(_is_number(value) for value in grid.axes[name])]
    panels = figure.subplots(1, 2, sharey=not numeric)
    timed = any(outcome.ms_alone is not None for outcome in done)
    speed = ("ms, one sentence at a time", "ms_alone") if timed else ("sentences/s", "sentences_per_second")
    for axes, (label, key) in zip(panels, (("BLEU", "bleu"), speed), strict=True):
        if numeric:
            _lines(axes, numeric[0], grid, done, key)
            axes.set(xlabel=NAMES.get(numeric[0], numeric[0]), ylabel=label)
        else:
            labels = [_label(outcome, grid.varied) for outcome in done]
            values = [getattr(outcome, key) or 0.0 for outcome in done]
            bars = axes.barh(labels, values, color=COLOURS[0])
            axes.bar_label(bars, fmt="%.2f" if key == "ms_alone" else "%.1f", padding=3)
            axes.margins(x=0.12)
            axes.set(xlabel=label)
        axes.grid(axis="y" if numeric else "x", alpha=0.3)
        axes.set_axisbelow(True)
    if not numeric:
        panels[0].invert_yaxis()  # the first on top; both panels share the axis
    handles, labels = panels[0].get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3), frameon=False)


def _lines(axes: Any, x: str, grid: Grid, outcomes: Sequence[Outcome], key: str) -> None:
    others = [name for name in grid.varied if name != x]
    series: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        series.setdefault(_label(outcome, others), []).append(outcome)
    for (label, points), colour, marker in zip(series.items(), cycle(COLOURS), cycle(MARKERS)):
        points = sorted(points, key=lambda outcome: outcome.settings[x])
        values = [getattr(outcome, key) for outcome in points]
        axes.plot(
            [outcome.settings[x] for outcome in points], values, color=colour, marker=marker, label=label
        )
    axes.set_xticks(sorted(grid.axes[x]), [str(value) for value in sorted(grid.axes[x])])


def _label(outcome: Outcome, names: Sequence[str]) -> str:
    values = {name: str(outcome.settings[name]).rstrip("/").rsplit("/", 1)[-1] for name in names}
    return ", ".join(f"{NAMES.get(name, name)} = {value}" for name, value in values.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
