"""Draw BLEU against passes of all systems: `python docs/draw_systems.py` makes systems.png of systems.csv."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.report.figure import COLOURS, MARKERS, new_figure, plain_logarithm, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = Path(__file__).parent / "results/systems.csv"
TOKEN_BY_TOKEN = "autoregressive"

Row = dict[str, str]


def rows() -> list[Row]:
    """Read the table: one row for each system and way of decoding."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def drawing(table: list[Row]) -> "Figure":
    """Return systems with one pass on the left, best first, and those with several on the right."""
    figure = new_figure(11.0, 5.2)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.25, 1))
    _one_pass(left, [row for row in table if float(row["passes"]) == 1])
    refined = [row for row in table if row["system"] != TOKEN_BY_TOKEN]
    lines: dict[str, list[Row]] = {}
    for row in refined:
        lines.setdefault(f"{row['system']}, {row['strategy']}", []).append(row)
    _several_passes(right, {name: own for name, own in lines.items() if float(own[-1]["passes"]) > 1})
    for axes in (left, right):
        axes.grid(alpha=0.3)
        for row in table:
            if row["system"] == TOKEN_BY_TOKEN:
                axes.axhline(float(row["bleu"]), color=COLOURS[-1], linewidth=1, linestyle="--")
                if axes is right:
                    label = f"token by token, {row['strategy']}, {float(row['passes']):.0f} passes"
                    place = (1.0, float(row["bleu"]))
                    axes.annotate(label, place, (0, 3), textcoords="offset points", fontsize=8)
    left.set_ylabel("BLEU")
    figure.suptitle("Multi30k, English to German, distilled text: BLEU on test_2016_flickr", fontsize=11)
    return figure


def _one_pass(axes: "Axes", table: list[Row]) -> None:
    best: dict[str, float] = {}
    for row in table:
        best[row["system"]] = max(float(row["bleu"]), best.get(row["system"], 0.0))
    names = sorted(best, key=best.__getitem__)
    axes.plot(range(len(names)), [best[name] for name in names], "o", color=COLOURS[0])
    for index, name in enumerate(names):
        text, place = f"{best[name]:.1f}", (index, best[name])
        axes.annotate(text, place, (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(names)), names, rotation=50, ha="right", fontsize=9)
    axes.margins(x=0.08, y=0.12)
    axes.set_title("one pass", fontsize=10)


def _several_passes(axes: "Axes", lines: dict[str, list[Row]]) -> None:
    for index, (name, own) in enumerate(sorted(lines.items())):
        axes.plot(
            [float(row["passes"]) for row in own],
            [float(row["bleu"]) for row in own],
            marker=MARKERS[index % len(MARKERS)],
            color=COLOURS[index % len(COLOURS)],
            markersize=5,
            linewidth=1.3,
            label=name,
        )
    axes.set_xscale("log")
    plain_logarithm(axes.xaxis)
    axes.set_xlabel("passes of the decoder per sentence")
    axes.set_title("several passes", fontsize=10)
    axes.legend(loc="lower right", fontsize=8, frameon=False)


if __name__ == "__main__":
    TABLE.with_suffix(".png").write_bytes(png(drawing(rows()), dpi=120))
