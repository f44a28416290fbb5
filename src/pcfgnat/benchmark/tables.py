"""Results as tables, for the terminal and as Markdown."""

from collections.abc import Sequence

from pcfgnat.benchmark.contender import Case
from pcfgnat.benchmark.machine import summary
from pcfgnat.benchmark.results import Results, Sample

NOTHING = "–"  # noqa: RUF001 (a dash, as in print)


class Table:
    """Cells under a header; the first column is a name, the others are figures."""

    def __init__(self, title: str, header: Sequence[str]) -> None:
        self.title, self.header = title, list(header)
        self.rows: list[list[str]] = []

    def add(self, *cells: str) -> None:
        """Add a row."""
        if len(cells) != len(self.header):
            raise ValueError(f"a row must have {len(self.header)} cells, got {len(cells)}")
        self.rows.append(list(cells))

    def text(self) -> str:
        """Put columns under each other."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = [self.title]
        for row in (self.header, *self.rows):
            name, *figures = row
            cells = [name.ljust(widths[0]), *(c.rjust(w) for c, w in zip(figures, widths[1:], strict=True))]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def markdown(self) -> str:
        """Write it as Markdown."""
        rule = ["---", *["---:"] * (len(self.header) - 1)]
        rows = [self.header, rule, *self.rows]
        return "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(row)} |" for row in rows)])


def timing_tables(results: Results) -> list[Table]:
    """Return a table of times for each number of threads and batch size, and one of memory."""
    found = []
    for threads in results.thread_counts():
        cases = results.cases(threads)
        groups = [[case for case in cases if case.batch == batch] for batch in _batches(cases)]
        found += [_times(results, threads, group) for group in groups]
    return [*found, _memory(results)]


def _batches(cases: Sequence[Case]) -> list[int]:
    return sorted({case.batch for case in cases})


def _times(results: Results, threads: int, cases: Sequence[Case]) -> Table:
    batch = cases[0].batch
    title = f"{counted(threads)}, batch {batch}: ms for a batch, median (quartiles) p95"
    columns = [f"{case.length} tokens" if case.length else "test set" for case in cases]
    table = Table(title, ["contender", *columns, "sentences/s"])
    for contender in results.contenders:
        samples = [results.sample(contender.name, threads, case) for case in cases]
        known = [sample for sample in samples if sample is not None]
        if known:
            speeds = " · ".join(f"{sample.sentences_per_second:.3g}" for sample in known)
            table.add(contender.name, *map(_cell, samples), speeds)
    return table


def _cell(sample: Sample | None) -> str:
    if sample is None:
        return NOTHING
    timing = sample.timing
    return f"{ms(timing.median)} ({ms(timing.low)}–{ms(timing.high)}) {ms(timing.p95)}"  # noqa: RUF001


def _memory(results: Results) -> Table:
    header = ["contender", "threads", "loaded", "peak", "s"]
    table = Table("memory of the process, MB, and seconds to load", header)
    for one in results.memory:
        sizes = (f"{one.loaded / 1e6:.0f}", f"{one.peak / 1e6:.0f}")
        table.add(one.contender, str(one.threads), *sizes, f"{one.load_seconds:.1f}")
    return table


def quality_table(results: Results, threads: int) -> Table:
    """Return BLEU beside time, for real text."""
    cases = results.cases(threads)
    table = Table(
        f"{counted(threads)}: BLEU and time",
        ["contender", "BLEU", *(f"batch {case.batch}: ms a sentence" for case in cases)],
    )
    for contender in results.contenders:
        if contender.name in results.quality:
            samples = [results.sample(contender.name, threads, case) for case in cases]
            times = [NOTHING if one is None else ms(one.timing.median / one.case.batch) for one in samples]
            table.add(contender.name, f"{results.quality[contender.name]:.2f}", *times)
    return table


def failures(results: Results) -> str:
    """Say what is missing and why."""
    return "\n".join(f"{name}: {reason}" for name, reason in results.failures.items())


def heading(results: Results) -> str:
    """Say where and how it was measured."""
    return f"Measured on {summary(results.machine)}."


def counted(threads: int) -> str:
    """Say how many threads."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def ms(seconds: float) -> str:
    """Milliseconds with three digits that mean something."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
