from pathlib import Path

import pytest

from pcfgnat.benchmark.bars import BARS, LONG, MANY, OURS, USUAL, bar_contenders, bar_table
from pcfgnat.benchmark.contender import Case, Contender, selected
from pcfgnat.benchmark.results import Memory, Results, Sample, Timing, quantile, ratio
from pcfgnat.benchmark.tables import quality_table, timing_tables
from tests.benchmark.tiny import tiny_cache

MACHINE = {
    "processor": "abacus",
    "flags": ["avx2"],
    "cores": 2,
    "memory_gb": 1.0,
    "python": "3.11",
    "pcfgnat": "0",
    "packages": {"torch": "2", "ctranslate2": None},
    "load_average_at_start": [0.1, 0.1, 0.1],
}


def contender(name: str) -> Contender:
    return Contender(name, "pcfg λ=4", "torch", Path("somewhere"), "viterbi")


def sample(name: str, case: Case, *rounds: list[float]) -> Sample:
    return Sample(name, 1, case, list(rounds))


def results(*samples: Sample) -> Results:
    names = dict.fromkeys(one.contender for one in samples)
    return Results(MACHINE, {"interrupted": False}, [contender(name) for name in names], list(samples))


def test_timing_is_of_all_calls() -> None:
    found = Timing.of([4.0, 1.0, 2.0, 3.0, 100.0])
    assert (found.median, found.low, found.high, found.calls) == (3.0, 2.0, 4.0, 5)
    assert found.p95 == pytest.approx(80.8)
    assert quantile([7.0], 0.95) == 7.0


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    slow = sample("slow", USUAL, [8.0, 8.0], [16.0], [30.0])
    fast = sample("fast", USUAL, [2.0, 2.0], [4.0], [])
    found = ratio(slow, fast)
    assert found.value == 12.0 / 2.0
    assert (found.low, found.high) == (4.0, 4.0)  # the disturbance of the second round hit both


def test_is_saved_and_read_again(tmp_path: Path) -> None:
    before = results(sample("one", USUAL, [1.0], []), sample("two", MANY))
    before.memory.append(Memory("one", 1, 10, 20, 0.5))
    before.quality["one"] = 33.3
    before.failures["two, 1 threads"] = "no such file"
    before.save(tmp_path)
    assert Results.load(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_tables_have_a_column_for_each_length_and_a_row_for_each_contender() -> None:
    found = results(
        sample("one", USUAL, [0.001, 0.002], [0.003]),
        sample("one", LONG, [0.0125]),
        sample("two", LONG, [1.5]),
    )
    table, memory = timing_tables(found)
    assert table.header == ["contender", "25 tokens", "100 tokens", "sentences/s"]
    assert table.rows[0][:2] == ["one", "2.00 (1.50–2.50) 2.90"]  # noqa: RUF001
    assert table.rows[0][3] == "500 · 80"
    assert table.rows[1] == ["two", "–", "1500 (1500–1500) 1500", "0.667"]  # noqa: RUF001
    assert memory.rows == []
    assert table.markdown().splitlines()[2:4] == [
        "| contender | 25 tokens | 100 tokens | sentences/s |",
        "| --- | ---: | ---: | ---: |",
    ]
    assert len({len(line) for line in table.text().splitlines()[1:]}) == 1


def test_quality_stands_beside_time() -> None:
    found = results(sample("one", Case(0, 1), [0.01]), sample("one", Case(0, 32), [0.064]))
    found.quality["one"] = 31.257
    table = quality_table(found, 1)
    assert table.rows == [["one", "31.26", "10.0", "2.00"]]


def test_bars_compare_the_right_ones() -> None:
    theirs = "ar-ctranslate2-int8-greedy"
    found = results(
        sample(f"{OURS}-shortlist", USUAL, [1.0]),
        sample(OURS, USUAL, [2.0]),
        sample(f"{OURS}-shortlist", LONG, [5.0]),
        sample(theirs, USUAL, [6.0]),
        sample(f"{theirs}-shortlist", USUAL, [4.0]),
    )
    rows = {row[0]: row[1:] for row in bar_table(found).rows}
    shown = [f"{value:.2f} ({value:.2f}–{value:.2f})" for value in (6.0, 2.0, 4.0, 3.0)]  # noqa: RUF001
    assert rows["CTranslate2 int8, greedy"] == ["≥ 2.5", "≥ 5", *shown]
    assert rows["itself: latency at 100 tokens over 25"][2].startswith("5.00")
    assert rows["CTranslate2 int8, beam 5"][2:] == ["–"] * 4  # noqa: RUF001


def test_the_bars_are_about_contenders_that_there_are(tmp_path: Path) -> None:
    there = {one.name for one in tiny_cache(tmp_path).contenders()}
    assert {name for bar in BARS for name in (bar.ours, bar.theirs)} <= there
    chosen = selected(tiny_cache(tmp_path).contenders(), bar_contenders())
    assert f"{OURS}-shortlist" in [one.name for one in chosen]


def test_contenders_are_chosen_by_pattern() -> None:
    some = [contender(name) for name in ("pcfg-torch", "pcfg-engine", "ar-torch")]
    assert selected(some, ["*-torch"]) == [some[0], some[2]]
    assert selected(some, []) == some
    with pytest.raises(
        ValueError, match=r"'dag' must fit one of the contenders pcfg-torch, .* but fits none"
    ):
        selected(some, ["p*", "dag"])
