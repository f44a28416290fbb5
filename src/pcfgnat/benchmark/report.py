"""Everything that a run reports in the end: tables in the terminal and as Markdown, and figures."""

from collections.abc import Sequence
from pathlib import Path

from pcfgnat.benchmark.plots import draw
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.tables import failures, heading, quality_table, timing_tables
from pcfgnat.report import Table

MARKDOWN = "report.md"


def report(results: Results, output: Path, more: Sequence[Table] = ()) -> str:
    """Write `report.md` and the figures, and return what to print; `more` tables come last."""
    tables = [*timing_tables(results), *more]
    if results.quality:
        tables += [quality_table(results, threads) for threads in results.thread_counts()]
    pictures = draw(results, output)
    missing = failures(results)
    markdown = [heading(results), *(table.markdown() for table in tables)]
    if missing:
        markdown.append("Left out:\n\n" + "\n".join(f"- {line}" for line in missing.splitlines()))
    markdown += [f"![{path.stem}]({path.name})" for path in pictures]
    (output / MARKDOWN).write_text("\n\n".join(markdown) + "\n", encoding="utf-8")
    printed = [heading(results), *(table.text() for table in tables)]
    if missing:
        printed.append(f"left out:\n{missing}")
    written = ", ".join(path.name for path in (output / MARKDOWN, *pictures))
    return "\n\n".join([*printed, f"{output} has results.json, {written}"])
