"""Ratios of times, with and without a shortlist on either side, and the distance to the limit."""

from dataclasses import dataclass

from benchmarks.products import pcfg_products
from benchmarks.synthetic import shortlist_size
from pcfgnat.benchmark.contender import Case
from pcfgnat.benchmark.results import Results, ratio
from pcfgnat.benchmark.tables import counted
from pcfgnat.config import from_dict
from pcfgnat.report import NOTHING, Table
from pcfgnat.report.statistics import Ratio
from pcfgnat.report.table import milliseconds

THREADS = 1
USUAL, LONG, MANY = Case(25, 1), Case(100, 1), Case(25, 32)
CASES = (USUAL, LONG, MANY)
OURS, OURS_NARROW = "pcfg-onnx-int8-viterbi", "pcfg2-onnx-int8-viterbi"
# Shortlist here and there.
SETTINGS = {
    "shortlist here only": (True, False),
    "shortlist there only": (False, True),
    "shortlist on both sides": (True, True),
    "no shortlist": (False, False),
}


@dataclass(frozen=True)
class Pair:
    """Two contenders whose times are divided."""

    label: str
    ours: str
    theirs: str
    case: Case = USUAL


PAIRS = (
    Pair("our autoregressive torch, beam 5", OURS, "ar-torch-beam"),
    Pair("CTranslate2 int8, beam 5", OURS, "ar-ctranslate2-int8-beam"),
    Pair("CTranslate2 int8, greedy", OURS, "ar-ctranslate2-int8-greedy"),
    Pair("batch 32: CTranslate2 int8, greedy", OURS, "ar-ctranslate2-int8-greedy", MANY),
    Pair("λ = 2: CTranslate2 int8, greedy", OURS_NARROW, "ar-ctranslate2-int8-greedy"),
    Pair("12-1: CTranslate2 int8, greedy", OURS, "ar12-1-ctranslate2-int8-greedy"),
    Pair("12-1, batch 32: CTranslate2 int8, greedy", OURS, "ar12-1-ctranslate2-int8-greedy", MANY),
    Pair("12-1: CTranslate2 int8, beam 5", OURS, "ar12-1-ctranslate2-int8-beam"),
    *(
        Pair(f"{label}, λ = {width}: CTranslate2 int8 {theirs}, greedy", ours, foreign, case)
        for shape in ("12-1", "10-2", "6-2")
        for width in (1, 2)
        for theirs in ("6-1", "12-1")
        for label, case in ((f"pcfg {shape}", USUAL), (f"pcfg {shape}, batch 32", MANY))
        for ours in (f"pcfg{shape}-lambda{width}-onnx-int8-viterbi",)
        for foreign in (f"ar{theirs}-ctranslate2-int8-greedy",)
    ),
)


def compared_contenders() -> list[str]:
    """Return patterns of the contenders that are compared."""
    names = {name for pair in PAIRS for name in (pair.ours, pair.theirs)}
    shortlists = {f"{name}-shortlist" for name in names if "torch" not in name}
    return [*sorted(names | shortlists), "pcfg-products-*"]


def ratio_table(results: Results) -> Table:
    """Compare; each cell has the ratio of medians and the quartiles of the ratios of single rounds."""
    rows = [
        [pair.label, *(_shown(_compared(results, pair, *setting)) for setting in SETTINGS.values())]
        for pair in PAIRS
    ]
    longer = [_shown(_longer(results, here)) for here, _ in SETTINGS.values()]
    rows.append(["itself: latency at 100 tokens over 25", *longer])
    title = f"pcfg onnx int8, viterbi, {THREADS} thread, 25 source tokens: how many times as fast as"
    return Table(["against", *SETTINGS], rows, title=title)


def limit_table(results: Results) -> Table | None:
    """Compare the onnx runtime with nothing but its matrix products; none if those were not measured."""
    rows = [
        row
        for threads in results.thread_counts()
        for case in results.cases(threads)
        for precision in ("float32", "int8")
        for suffix in ("", "-shortlist")
        if (row := _limit(results, threads, case, precision, suffix)) is not None
    ]
    header = ["pcfg", "case", "onnx ms", "products ms", "share", "GFLOP", "GFLOP/s of the products"]
    return (
        Table(header, rows, title="share of the time that the matrix products alone take") if rows else None
    )


def _limit(results: Results, threads: int, case: Case, precision: str, suffix: str) -> list[str] | None:
    limit = results.sample(f"pcfg-products-{precision}{suffix}", threads, case)
    if limit is None:
        return None
    ours = results.sample(f"pcfg-onnx-{precision}-viterbi{suffix}", threads, case)
    flops = _flops(results, case, bool(suffix))
    seconds = limit.timing.median
    return [
        f"{precision}{' with shortlist' if suffix else ''}",
        f"{case}, {counted(threads)}",
        NOTHING if ours is None else milliseconds(ours.timing.median),
        milliseconds(seconds),
        NOTHING if ours is None else f"{100 * seconds / ours.timing.median:.0f} %",
        f"{flops / 1e9:.2f}",
        f"{flops / seconds / 1e9:.0f}",
    ]


def _flops(results: Results, case: Case, shortlist: bool) -> int:
    from pcfgnat.networks import PCFGConfig

    config = from_dict(PCFGConfig, results.settings["pcfg"])
    vocabulary = results.settings["vocabulary"]
    types = min(vocabulary, shortlist_size(case.length)) if shortlist else vocabulary
    return sum(product.flops for product in pcfg_products(config, case.length, case.batch, types))


def _compared(results: Results, pair: Pair, here: bool, there: bool) -> Ratio | None:
    there = there and "ctranslate2" in pair.theirs  # torch has none
    above = results.sample(f"{pair.theirs}{'-shortlist' if there else ''}", THREADS, pair.case)
    below = results.sample(f"{pair.ours}{'-shortlist' if here else ''}", THREADS, pair.case)
    return None if above is None or below is None else ratio(above, below)


def _longer(results: Results, here: bool) -> Ratio | None:
    name = f"{OURS}{'-shortlist' if here else ''}"
    above, below = (results.sample(name, THREADS, case) for case in (LONG, USUAL))
    return None if above is None or below is None else ratio(above, below)


def _shown(found: Ratio | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})"  # noqa: RUF001
