from pathlib import Path

from benchmarks.ratios import LONG, OURS, PAIRS, USUAL, compared_contenders, limit_table, ratio_table

from pcfgnat.benchmark.contender import selected
from tests.benchmark.test_results import results, sample
from tests.benchmarks.tiny import tiny_cache


def test_the_right_ones_are_compared() -> None:
    theirs = "ar-ctranslate2-int8-greedy"
    found = results(
        sample(f"{OURS}-shortlist", USUAL, [1.0]),
        sample(OURS, USUAL, [2.0]),
        sample(f"{OURS}-shortlist", LONG, [5.0]),
        sample(theirs, USUAL, [6.0]),
        sample(f"{theirs}-shortlist", USUAL, [4.0]),
    )
    rows = {row[0]: row[1:] for row in ratio_table(found).rows}
    shown = [f"{value:.2f} ({value:.2f}\u2013{value:.2f})" for value in (6.0, 2.0, 4.0, 3.0)]
    assert rows["CTranslate2 int8, greedy"] == shown
    assert rows["itself: latency at 100 tokens over 25"][0].startswith("5.00")
    assert rows["CTranslate2 int8, beam 5"] == ["\u2013"] * 4
    assert limit_table(found) is None


def test_all_that_are_compared_exist(tmp_path: Path) -> None:
    there = {one.name for one in tiny_cache(tmp_path).contenders()}
    assert {name for pair in PAIRS for name in (pair.ours, pair.theirs)} <= there
    chosen = selected(tiny_cache(tmp_path).contenders(), compared_contenders())
    assert f"{OURS}-shortlist" in [one.name for one in chosen]
