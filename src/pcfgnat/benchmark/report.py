"""Everything that a run says in the end: tables in the terminal and as Markdown, and pictures."""

from pathlib import Path

from pcfgnat.benchmark.bars import bar_table, limit_table
from pcfgnat.benchmark.plots import draw
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.tables import Table, failures, heading, quality_table, timing_tables

MARKDOWN = "report.md"


def report(results: Results, output: Path) -> str:
    """Write `report.md` and the pictures, and return what to print."""
    tables = _tables(results)
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


def _tables(results: Results) -> list[Table]:
    tables = timing_tables(results)
    if results.quality:
        tables += [quality_table(results, threads) for threads in results.thread_counts()]
    if "pcfg" in results.settings:  # the models that the bars are about
        limit = limit_table(results)
        tables += [bar_table(results), *([] if limit is None else [limit])]
    return tables
