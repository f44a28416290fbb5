import json
from pathlib import Path

import pytest

from pcfgnat.cli import main
from tests.cli.test_commands import Capture, error, out, written

TEXT = "The house is old."


def test_constraints(tmp_path: Path, capsys: Capture) -> None:
    terms = written(tmp_path / "terms.tsv", "house\tGebäude", "cat\tKater")
    found = out(
        capsys, "translate", TEXT, "--glossary", terms, "--require", "uralt", "--forbid", "alt",
        "--prefix", "Das ", "--max-characters", "40",
    )  # fmt: skip
    assert found.startswith("Das ")
    assert "Gebäude" in found
    assert "uralt" in found
    assert " alt" not in found
    assert len(found.strip()) <= 40
    assert "Kater" not in found


def test_json_has_what_was_forced_and_confidence(capsys: Capture) -> None:
    data = json.loads(out(capsys, "translate", TEXT, "--require", "Gebäude", "--json", "--confidence"))
    assert [data["pieces"][place] for place in data["forced"]] == ["▁Gebäude"]
    assert [word["text"] for word in data["words"]] == data["text"].strip(".").split()
    bare = json.loads(out(capsys, "translate", TEXT, "--json"))
    assert "words" not in bare
    assert (
        error(capsys, "translate", TEXT, "--confidence")
        == "--confidence must come with --json, which shows it"
    )


def test_what_is_impossible_is_said(tmp_path: Path, capsys: Capture) -> None:
    assert main(["translate", TEXT, "--require", "Ω"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "pcfgnat: line 1: cannot require 'Ω'\n"
    assert captured.out
    found = error(capsys, "translate", TEXT, "--require", "Ω", "--strict")
    assert found == f"cannot require 'Ω' in the translation of {TEXT!r}"
    assert "greedy" in error(capsys, "translate", TEXT, "--require", "x", "--decode", "greedy")
    wrong = written(tmp_path / "terms.tsv", "no tab")
    assert "line 1 must be a source phrase" in error(capsys, "translate", TEXT, "--glossary", wrong)
    with pytest.raises(SystemExit):
        main(["translate", TEXT, "--max-characters", "0"])


def test_awkward_tokens_are_kept_unless_told(capsys: Capture) -> None:
    line = "I love pizza 🍕."
    assert "🍕" in out(capsys, "translate", line)
    assert "🍕" not in out(capsys, "translate", line, "--no-keep")


def test_other_constraints_are_another_job(tmp_path: Path) -> None:
    source, result = written(tmp_path / "in.txt", TEXT), tmp_path / "out.txt"
    command = ["translate", "--input", str(source), "--output", str(result)]
    assert main([*command, "--require", "Gebäude"]) == 0
    assert "Gebäude" in result.read_text(encoding="utf-8")
    assert main([*command, "--require", "Bude"]) == 0
    assert "Bude" in result.read_text(encoding="utf-8")
