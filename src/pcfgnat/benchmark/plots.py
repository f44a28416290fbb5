"""Results as pictures."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pcfgnat.benchmark.contender import Case, Contender
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.tables import counted
from pcfgnat.report.figure import MARKERS, new_figure, plain_logarithm, png
from pcfgnat.storage.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {"torch": ":", "onnx": "-.", "native": "-", "ctranslate2": "--"}
OTHER_STYLE = "-."
USUAL_LENGTH, USUAL_BATCH = 25, 1


def draw(results: Results, output: Path) -> list[Path]:
    """Draw all pictures that the results have figures for."""
    found = []
    for threads in results.thread_counts():
        cases = results.cases(threads)
        end = counted(threads)
        by_length = [case for case in cases if case.batch == USUAL_BATCH and case.length]
        if len(by_length) > 1:
            path = output / f"latency-{threads}.png"
            _lines(results, threads, by_length, path, f"latency, batch {USUAL_BATCH}, {end}")
            found.append(path)
        by_batch = [case for case in cases if case.length == USUAL_LENGTH]
        if len(by_batch) > 1:
            path = output / f"throughput-{threads}.png"
            _lines(results, threads, by_batch, path, f"throughput, {USUAL_LENGTH} tokens, {end}")
            found.append(path)
        real = [case for case in cases if not case.length]
        if real and results.quality:
            path = output / f"quality-{threads}.png"
            _scatter(results, threads, real[0], path, f"BLEU against latency, batch {real[0].batch}, {end}")
            found.append(path)
    return found


def _lines(results: Results, threads: int, cases: Sequence[Case], path: Path, title: str) -> None:
    """Draw one-pass models and token-by-token ones in two panels with one scale."""
    by_length = len({case.length for case in cases}) > 1
    figure = new_figure(13.0, 6.4)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, name, belongs in (
        (left, "all tokens at once", lambda contender: not contender.forced),
        (right, "token by token", lambda contender: contender.forced),
    ):
        chosen = [contender for contender in results.contenders if belongs(contender)]
        _panel(axes, results, threads, cases, chosen)
        axes.set_title(name)
        axes.set_xlabel("source tokens" if by_length else "batch")
        axes.set_xticks(
            ticks := [case.length if by_length else case.batch for case in cases], map(str, ticks)
        )
        axes.minorticks_off()
    left.set_ylabel("ms" if by_length else "sentences/s")
    left.set_yscale("log")
    plain_logarithm(left.yaxis)
    figure.suptitle(title)
    write_atomically(path, png(figure, dpi=120, tight=True))


def _panel(
    axes: "Axes", results: Results, threads: int, cases: Sequence[Case], contenders: Sequence[Contender]
) -> None:
    by_length = len({case.length for case in cases}) > 1
    for index, contender in enumerate(contenders):
        known = [sample for case in cases if (sample := results.sample(contender.name, threads, case))]
        if not known:
            continue
        axes.plot(
            [sample.case.length if by_length else sample.case.batch for sample in known],
            [1e3 * sample.timing.median if by_length else sample.sentences_per_second for sample in known],
            STYLES.get(contender.runtime, OTHER_STYLE),
            marker=MARKERS[index % len(MARKERS)],
            color=f"C{index % 10}",
            markersize=4,
            linewidth=1.3,
            label=contender.name,
        )
    axes.set_xscale("log")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=7.5, frameon=False)


def _scatter(results: Results, threads: int, case: Case, path: Path, title: str) -> None:
    figure = new_figure(8.0, 5.0)
    axes = figure.subplots()
    judged = [
        (contender.name, sample.timing)
        for contender in results.contenders
        if contender.name in results.quality and (sample := results.sample(contender.name, threads, case))
    ]
    middle = statistics.median(timing.median for _, timing in judged)
    by_bleu = sorted((name for name, _ in judged), key=results.quality.__getitem__)
    for index, (name, timing) in enumerate(judged):
        bleu = results.quality[name]
        place, low, high = (1e3 * seconds for seconds in (timing.median, timing.low, timing.high))
        marker, colour = MARKERS[index % len(MARKERS)], f"C{index % 10}"
        axes.errorbar([place], [bleu], xerr=[[place - low], [high - place]], fmt=marker, color=colour)
        side, shift = ("right", -6) if timing.median > middle else ("left", 6)
        up = 5 if by_bleu.index(name) % 2 else -13  # neighbours get out of each other's way
        axes.annotate(name, (place, bleu), (shift, up), textcoords="offset points", fontsize=8, ha=side)
    axes.set_xscale("log")
    plain_logarithm(axes.xaxis)
    axes.margins(x=0.25, y=0.15)
    axes.set_xlabel("ms a sentence, median and quartiles")
    axes.set_ylabel("BLEU")
    axes.grid(alpha=0.3)
    axes.set_title(title)
    write_atomically(path, png(figure, dpi=120, tight=True))
