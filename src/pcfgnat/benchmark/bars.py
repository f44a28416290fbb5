"""The promised ratios, with and without a shortlist on either side, and the distance to the limit."""

from dataclasses import dataclass

from pcfgnat.benchmark.contender import Case
from pcfgnat.benchmark.products import pcfg_products
from pcfgnat.benchmark.results import Ratio, Results, ratio
from pcfgnat.benchmark.synthetic import shortlist_size
from pcfgnat.benchmark.tables import NOTHING, Table, counted, ms
from pcfgnat.config import from_dict

THREADS = 1
USUAL, LONG, MANY = Case(25, 1), Case(100, 1), Case(25, 32)
CASES = (USUAL, LONG, MANY)
OURS, OURS_NARROW = "pcfg-onnx-int8-viterbi", "pcfg2-onnx-int8-viterbi"
# Shortlist here and there; the first is what the bars are about.
SETTINGS = {
    "shortlist here only": (True, False),
    "shortlist there only": (False, True),
    "shortlist on both sides": (True, True),
    "no shortlist": (False, False),
}


@dataclass(frozen=True)
class Bar:
    """How many times as long the other one must take; without figures it is there to be known."""

    label: str
    ours: str
    theirs: str
    case: Case = USUAL
    must: float | None = None
    aim: float | None = None


BARS = (
    Bar("our autoregressive torch, beam 5", OURS, "ar-torch-beam", must=12.6, aim=25.0),
    Bar("CTranslate2 int8, beam 5", OURS, "ar-ctranslate2-int8-beam", must=3.0, aim=6.0),
    Bar("CTranslate2 int8, greedy", OURS, "ar-ctranslate2-int8-greedy", must=2.5, aim=5.0),
    Bar("batch 32: CTranslate2 int8, greedy", OURS, "ar-ctranslate2-int8-greedy", MANY, must=1.0, aim=2.0),
    Bar("λ = 2: CTranslate2 int8, greedy", OURS_NARROW, "ar-ctranslate2-int8-greedy", must=4.0, aim=8.0),
    Bar("12-1: CTranslate2 int8, greedy", OURS, "ar12-1-ctranslate2-int8-greedy"),
    Bar("12-1, batch 32: CTranslate2 int8, greedy", OURS, "ar12-1-ctranslate2-int8-greedy", MANY),
    Bar("12-1: CTranslate2 int8, beam 5", OURS, "ar12-1-ctranslate2-int8-beam"),
)
LONGER_MUST, LONGER_AIM = 6.0, 4.5


def bar_contenders() -> list[str]:
    """Return patterns of the contenders that the bars need."""
    names = {name for bar in BARS for name in (bar.ours, bar.theirs)}
    shortlists = {f"{name}-shortlist" for name in names if "torch" not in name}
    return [*sorted(names | shortlists), "pcfg-products-*"]


def bar_table(results: Results) -> Table:
    """Compare; each cell has the ratio of medians and the quartiles of the ratios of single rounds."""
    table = Table(
        f"pcfg engine int8, viterbi, {THREADS} thread, 25 source tokens: how many times as fast as",
        ["against", "must", "aim", *SETTINGS],
    )
    for bar in BARS:
        cells = [_shown(_compared(results, bar, *setting)) for setting in SETTINGS.values()]
        table.add(bar.label, _goal(bar.must), _goal(bar.aim), *cells)
    longer = [_shown(_longer(results, here)) for here, _ in SETTINGS.values()]
    table.add("itself: latency at 100 tokens over 25", f"≤ {LONGER_MUST:g}", f"≤ {LONGER_AIM:g}", *longer)
    return table


def limit_table(results: Results) -> Table | None:
    """Compare the engine with nothing but its matrix products; none if those were not measured."""
    table = Table(
        "share of the time that the matrix products alone take",
        ["pcfg", "case", "engine ms", "products ms", "share", "GFLOP", "GFLOP/s of the products"],
    )
    for threads in results.thread_counts():
        for case in results.cases(threads):
            for precision in ("float32", "int8"):
                for suffix in ("", "-shortlist"):
                    _add_limit(table, results, threads, case, precision, suffix)
    return table if table.rows else None


def _add_limit(table: Table, results: Results, threads: int, case: Case, precision: str, suffix: str) -> None:
    limit = results.sample(f"pcfg-products-{precision}{suffix}", threads, case)
    if limit is None:
        return
    ours = results.sample(f"pcfg-onnx-{precision}-viterbi{suffix}", threads, case)
    flops = _flops(results, case, bool(suffix))
    seconds = limit.timing.median
    table.add(
        f"{precision}{' with shortlist' if suffix else ''}",
        f"{case}, {counted(threads)}",
        NOTHING if ours is None else ms(ours.timing.median),
        ms(seconds),
        NOTHING if ours is None else f"{100 * seconds / ours.timing.median:.0f} %",
        f"{flops / 1e9:.2f}",
        f"{flops / seconds / 1e9:.0f}",
    )


def _flops(results: Results, case: Case, shortlist: bool) -> int:
    from pcfgnat.networks import PCFGConfig

    config = from_dict(PCFGConfig, results.settings["pcfg"])
    vocabulary = results.settings["vocabulary"]
    types = min(vocabulary, shortlist_size(case.length)) if shortlist else vocabulary
    return sum(product.flops for product in pcfg_products(config, case.length, case.batch, types))


def _compared(results: Results, bar: Bar, here: bool, there: bool) -> Ratio | None:
    there = there and "ctranslate2" in bar.theirs  # torch has none
    above = results.sample(f"{bar.theirs}{'-shortlist' if there else ''}", THREADS, bar.case)
    below = results.sample(f"{bar.ours}{'-shortlist' if here else ''}", THREADS, bar.case)
    return None if above is None or below is None else ratio(above, below)


def _longer(results: Results, here: bool) -> Ratio | None:
    name = f"{OURS}{'-shortlist' if here else ''}"
    above, below = (results.sample(name, THREADS, case) for case in (LONG, USUAL))
    return None if above is None or below is None else ratio(above, below)


def _shown(found: Ratio | None) -> str:
    if found is None:
        return NOTHING
    return f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})"  # noqa: RUF001


def _goal(value: float | None) -> str:
    return NOTHING if value is None else f"≥ {value:g}"
