from pathlib import Path

import pytest

from pcfgnat.benchmark.contender import Case, Contender, selected
from pcfgnat.benchmark.results import Memory, Results, Sample
from pcfgnat.benchmark.tables import quality_table, timing_tables

USUAL, LONG, MANY = Case(25, 1), Case(100, 1), Case(25, 32)
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
    table, tails, memory = timing_tables(found)
    assert tails.rows[1] == ["two", "1", "–", "1500 1500 (1.00)"]  # noqa: RUF001
    assert tails.rows[0][2] == "2.00 2.98 (1.49)"
    assert table.header == ["contender", "25 tokens", "100 tokens", "sentences/s"]
    assert table.rows[0][:2] == ["one", "2.00 (1.50–2.50) 2.90"]  # noqa: RUF001
    assert table.rows[0][3] == "500 · 80"
    assert table.rows[1] == ["two", "–", "1500 (1500–1500) 1500", "0.667"]  # noqa: RUF001
    assert memory.rows == []
    assert [cell.strip() for cell in table.markdown().splitlines()[2].split("|")] == ["", *table.header, ""]
    assert len({len(line) for line in table.text().splitlines()[1:]}) == 1


def test_quality_stands_beside_time() -> None:
    found = results(sample("one", Case(0, 1), [0.01]), sample("one", Case(0, 32), [0.064]))
    found.quality["one"] = 31.257
    table = quality_table(found, 1)
    assert table.rows == [["one", "31.26", "10.0", "2.00"]]


def test_contenders_are_chosen_by_pattern() -> None:
    some = [contender(name) for name in ("pcfg-torch", "pcfg-onnx", "ar-torch")]
    assert selected(some, ["*-torch"]) == [some[0], some[2]]
    assert selected(some, []) == some
    with pytest.raises(
        ValueError, match=r"'dag' must fit one of the contenders pcfg-torch, .* but fits none"
    ):
        selected(some, ["p*", "dag"])
