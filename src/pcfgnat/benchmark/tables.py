"""Results as tables, for the terminal and as Markdown."""

from collections.abc import Sequence

from pcfgnat.benchmark.contender import Case
from pcfgnat.benchmark.machine import summary
from pcfgnat.benchmark.results import Results, Sample
from pcfgnat.report import NOTHING, Table
from pcfgnat.report.table import milliseconds


def timing_tables(results: Results) -> list[Table]:
    """Return a table of times for each number of threads and batch size, and one of memory."""
    found = []
    for threads in results.thread_counts():
        cases = results.cases(threads)
        groups = [[case for case in cases if case.batch == batch] for batch in _batches(cases)]
        found += [_times(results, threads, group) for group in groups]
    return [*found, *(_latencies(results, batch) for batch in _all_batches(results)), _memory(results)]


def _batches(cases: Sequence[Case]) -> list[int]:
    return sorted({case.batch for case in cases})


def _times(results: Results, threads: int, cases: Sequence[Case]) -> Table:
    batch = cases[0].batch
    title = f"{counted(threads)}, batch {batch}: ms for a batch, median (quartiles) p95"
    columns = [f"{case.length} tokens" if case.length else "test set" for case in cases]
    rows = []
    for contender in results.contenders:
        samples = [results.sample(contender.name, threads, case) for case in cases]
        known = [sample for sample in samples if sample is not None]
        if known:
            speeds = " · ".join(f"{sample.sentences_per_second:.3g}" for sample in known)
            rows.append([contender.name, *map(_cell, samples), speeds])
    return Table(["contender", *columns, "sentences/s"], rows, title=title)


def _all_batches(results: Results) -> list[int]:
    return _batches([case for threads in results.thread_counts() for case in results.cases(threads)])


def _latencies(results: Results, batch: int) -> Table:
    """Return p50 and p99 by length, a row for each contender and number of threads."""
    counts = results.thread_counts()
    cases = sorted({case for threads in counts for case in results.cases(threads) if case.batch == batch})
    rows = []
    for contender in results.contenders:
        for threads in counts:
            samples = [results.sample(contender.name, threads, case) for case in cases]
            if any(sample is not None for sample in samples):
                rows.append([contender.name, str(threads), *map(_tail, samples)])
    columns = [f"{case.length} tokens" if case.length else "test set" for case in cases]
    title = f"batch {batch}, by threads: ms for a batch, p50, p99 (p99/p50)"
    return Table(["contender", "threads", *columns], rows, title=title)


def _tail(sample: Sample | None) -> str:
    if sample is None:
        return NOTHING
    timing = sample.timing
    return f"{milliseconds(timing.median)} {milliseconds(timing.p99)} ({timing.p99 / timing.median:.2f})"


def _cell(sample: Sample | None) -> str:
    if sample is None:
        return NOTHING
    timing = sample.timing
    median, low, high, p95 = map(milliseconds, (timing.median, timing.low, timing.high, timing.p95))
    return f"{median} ({low}–{high}) {p95}"  # noqa: RUF001


def _memory(results: Results) -> Table:
    rows = []
    for one in results.memory:
        sizes = (f"{one.loaded / 1e6:.0f}", f"{one.peak / 1e6:.0f}")
        rows.append([one.contender, str(one.threads), one.ran, *sizes, f"{one.load_seconds:.1f}"])
    title = "what ran; memory of its process, MB, and seconds to load"
    return Table(["contender", "threads", "runtime", "loaded", "peak", "s"], rows, title=title)


def quality_table(results: Results, threads: int) -> Table:
    """Return BLEU beside time, for real text."""
    cases = results.cases(threads)
    rows = []
    for contender in results.contenders:
        if contender.name in results.quality:
            samples = [results.sample(contender.name, threads, case) for case in cases]
            times = [
                NOTHING if one is None else milliseconds(one.timing.median / one.case.batch)
                for one in samples
            ]
            rows.append([contender.name, f"{results.quality[contender.name]:.2f}", *times])
    header = ["contender", "BLEU", *(f"batch {case.batch}: ms a sentence" for case in cases)]
    return Table(header, rows, title=f"{counted(threads)}: BLEU and time")


def failures(results: Results) -> str:
    """Return the missing contenders with the reasons, one per line."""
    return "\n".join(f"{name}: {reason}" for name, reason in results.failures.items())


def heading(results: Results) -> str:
    """Return a line about the machine and the versions measured."""
    return f"Measured on {summary(results.machine)}."


def counted(threads: int) -> str:
    """Return a number of threads as text."""
    return f"{threads} thread{'s' if threads > 1 else ''}"
