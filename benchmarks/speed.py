"""Models of the paper's size with random weights, side by side: `python -m benchmarks.speed`.

Ours in torch and on onnxruntime, and the same autoregressive weights in CTranslate2. Each contender runs in a
separate process; they take turns. Autoregressive ones stop at the length of their source. The models are
built once into a cache (some 3 GB).

  python -m benchmarks.speed                          everything; takes hours, and some 20 GB of memory
  python -m benchmarks.speed --ratios                 only what the table of ratios needs
  python -m benchmarks.speed --contenders 'pcfg-*' '*int8*' --lengths 25 --batches 1 --threads 1 --rounds 5
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.paper_size import Cache, Size
from benchmarks.ratios import CASES, compared_contenders, limit_table, ratio_table
from benchmarks.synthetic import sentences
from pcfgnat.benchmark.contender import Case, selected
from pcfgnat.benchmark.machine import machine
from pcfgnat.benchmark.report import report
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.rounds import Plan
from pcfgnat.benchmark.run import Grid, measured
from pcfgnat.config import to_dict
from pcfgnat.report import Table

SENTENCES = 160
LENGTHS, BATCHES = (10, 25, 50, 100), (1, 8, 32)
CACHE = Path.home() / ".cache" / "pcfgnat" / "paper-size"


def paper_size(
    models: Cache, grid: Grid, patterns: Sequence[str], output: Path, say: Callable[[str], None]
) -> Results:
    """Measure models of random weights; those that decode token by token stop at the source's length."""
    contenders = selected(models.contenders(), patterns)
    for contender in contenders:
        models.build(contender)
    tokenizer = models.tokenizer()
    lengths = {case.length for case in grid.cases}
    texts = {length: sentences(tokenizer, length, SENTENCES) for length in lengths}
    settings = {
        **grid.to_dict(),
        "pcfg": to_dict(models.size.models()["pcfg"][1]),
        "vocabulary": tokenizer.vocabulary_size,
    }
    results = Results(machine(), settings, contenders)
    plan = Plan(contenders, grid.cases, grid.threads, texts, grid.rounds, grid.seconds)
    return measured(plan, results, output, say)


def comparisons(results: Results) -> list[Table]:
    """Return the tables of ratios and of the distance to the limit."""
    limit = limit_table(results)
    return [ratio_table(results), *([] if limit is None else [limit])]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    models = Cache(options.cache, Size(), print)
    if options.list:
        print("\n".join(contender.name for contender in models.contenders()))
        return
    if options.report is not None:
        found = Results.load(options.report)
        print(report(found, options.report, comparisons(found)))
        return
    cases = [Case(length, batch) for batch in options.batches for length in options.lengths]
    patterns = options.contenders
    if options.ratios:
        cases, patterns = list(CASES), compared_contenders()
    grid = Grid(cases, options.threads, options.rounds, options.seconds)
    results = paper_size(models, grid, patterns, options.output, print)
    print(report(results, options.output, comparisons(results)))
    if results.settings["interrupted"]:
        raise SystemExit(130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ratios", action="store_true", help="only what the table of ratios needs")
    add("--list", action="store_true", help="print the names of all contenders, and do nothing")
    add("--report", type=Path, metavar="DIR", help="print the tables of an earlier run again")
    add(
        "--contenders",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="such as 'pcfg-onnx-*' (default: all)",
    )
    add("--lengths", nargs="+", type=int, default=LENGTHS, metavar="N", help="source tokens, ends included")
    add("--batches", nargs="+", type=int, default=BATCHES, metavar="N", help="sentences at a time")
    add("--threads", nargs="+", type=int, default=[1], metavar="N", help="numbers of threads (default: 1)")
    add("--rounds", type=int, default=10, metavar="N", help="turns of each contender (default: 10)")
    add(
        "--seconds",
        type=float,
        default=30.0,
        metavar="S",
        help="limit for a contender in one case (default: 30)",
    )
    add(
        "--output", type=Path, default=Path("runs/benchmark"), metavar="DIR", help="(default: runs/benchmark)"
    )
    add("--cache", type=Path, default=CACHE, metavar="DIR", help=f"of the models (default: {CACHE})")
    return parser


if __name__ == "__main__":
    main()
