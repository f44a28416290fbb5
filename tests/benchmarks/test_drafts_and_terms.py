"""The benchmarks of constraints and of verification, at a size that takes no time."""

import json
from pathlib import Path

import pytest
from benchmarks.constraints import has_all, possible, terms_of

from benchmarks import constraints, verification
from tests.cli.conftest import World


def test_terms_are_words_of_the_reference() -> None:
    line = "Ein Mann, ein Pferd; ein Mann."
    assert set(terms_of(line, 4, seed=1)) == {"Ein", "Mann", "ein", "Pferd"}
    assert len(terms_of(line, 2, seed=1)) == 2
    assert terms_of(line, 2, seed=1) == terms_of(line, 2, seed=1)
    assert len(terms_of(line, 9, seed=1)) == 4
    assert len({terms_of(line, 1, seed) for seed in range(20)}) == 4
    assert has_all(line, ("Mann", "Pferd"))
    assert not has_all(line, ("Man",))
    assert has_all("货Mann祖", ("Mann",))  # around which no space is written


@pytest.mark.slow
def test_constraints_are_counted(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--source", str(world.root / "test.de"), "--reference", str(world.root / "test.de")]
    report = tmp_path / "report.json"
    asked = ["--model", str(world.grammar), *files, "--sentences", "3", "--rounds", "1"]
    constraints.main([*asked, "--json", str(report)])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "terms"
    assert [line.split()[0] for line in lines] == ["0", "1", "2", "4"]
    found = {cost["terms"]: cost for cost in json.loads(report.read_text())["constraints"]}
    assert {count: cost["seconds"]["calls"] for count, cost in found.items()} == dict.fromkeys(found, 1)
    assert (found[1]["sentences"], found[1]["impossible"], found[1]["satisfied"]) == (3, 0, 3)


def test_only_what_is_impossible_may_be_missing() -> None:
    assert possible(("Mann", "Ω"), ["require 'Ω'"]) == ["Mann"]
    assert possible(("Mann", "Ω"), []) == ["Mann", "Ω"]


@pytest.mark.slow
def test_verified_drafts_are_compared(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--source", str(world.root / "test.de"), "--reference", str(world.root / "test.zh")]
    models = ["--model", str(world.grammar), "--verifier", str(world.teacher), "--precision", "float32"]
    report = tmp_path / "report.json"
    verification.main([*models, *files, "--sentences", "3", "--rounds", "1", "--json", str(report)])
    printed = capsys.readouterr().out
    assert "rounds per sentence" in printed
    found = json.loads(report.read_text())
    rows = {row["name"]: row for row in found["contenders"]}
    assert list(rows) == ["verify", "greedy", "rescore", "CTranslate2 greedy", "CTranslate2 beam 5"]
    assert rows["verify"]["as_greedy"] == rows["greedy"]["as_greedy"] == 3
    assert rows["verify"]["bleu"] == rows["greedy"]["bleu"]
    rounds = found["rounds"]
    assert rounds["sentences"] >= 3
    assert rounds["mean"] >= 1
    assert 0 <= rounds["accepted"] <= rounds["written"]
