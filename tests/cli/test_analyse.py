"""`pcfgnat analyse` on small checkpoints of random weights."""

import json
from pathlib import Path

import pytest

from pcfgnat.analysis import Subject, concentration
from pcfgnat.cli import main
from pcfgnat.evaluation import EvaluationSet
from tests.cli.conftest import World
from tests.cli.test_commands import error, out

Capture = pytest.CaptureFixture[str]


def test_concentration_of_prepared_data_and_of_files(world: World, tmp_path: Path, capsys: Capture) -> None:
    text = out(
        capsys, "analyse", "concentration", f"ours={world.grammar}", "--data", world.prepared,
        "--output", tmp_path,
    )  # fmt: skip
    texts = EvaluationSet.prepared(world.prepared, "valid")  # as in the paper
    expected = concentration(Subject.load("ours", world.grammar), texts)
    (model,) = json.loads((tmp_path / "concentration.json").read_text())["models"]
    assert [row["log_share"] for row in model["shares"]] == [share.log_share for share in expected.shares]
    assert len(expected.shares) + len(expected.left_out) == 6
    assert (tmp_path / "concentration.md").read_text() == text
    files = ("--source", world.root / "valid.de", "--target", world.root / "valid.zh")
    again = out(capsys, "analyse", "concentration", f"ours={world.grammar}", *files)
    assert again.splitlines()[4:] == text.splitlines()[4:]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "concentration.json",
        "concentration.md",
        "concentration.png",
    ]


def test_structure_and_syntax(world: World, capsys: Capture) -> None:
    text = out(capsys, "analyse", "structure", world.grammar, "--data", world.prepared, "--limit", "3")
    assert "first 3; trees of the references" in text
    arguments = ["analyse", "syntax", f"ours={world.grammar}", "--data", str(world.prepared), "--limit", "3"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "first 3; trees of the translations; tagger: NLTK" in captured.out
    assert captured.err == "pcfgnat: ours translates into 'zh', but the tags are those of English words\n"


def test_says_what_makes_no_sense(world: World, capsys: Capture) -> None:
    found = error(capsys, "analyse", "structure", f"teacher={world.teacher}", "--data", world.prepared)
    assert found == (
        "teacher must be a one-pass model, whose sentences have a hidden structure, got autoregressive"
    )
    assert "must be either --data DIR, or --source FILE" in error(capsys, "analyse", "syntax", world.grammar)
    file = world.root / "test.de"
    found = error(capsys, "analyse", "syntax", world.grammar, "--data", world.prepared, "--source", file)
    assert "must be either --data DIR" in found
    found = error(
        capsys, "analyse", "syntax", world.grammar, "--source", file, "--target", world.root / "train.zh"
    )
    assert "must have the same number of lines, got 8 and 60" in found


def test_help_reads_well(capsys: Capture) -> None:
    for command in (["analyse"], ["analyse", "concentration"], ["analyse", "syntax"], ["ablate"]):
        with pytest.raises(SystemExit, match="0"):
            main([*command, "--help"])
        text = capsys.readouterr().out
        assert f"usage: pcfgnat {' '.join(command)}" in text
        assert max(map(len, text.splitlines())) <= 112
