"""`pcfgnat export`, on the small checkpoints of the other commands."""

from pathlib import Path

import pytest

from pcfgnat.cli import main
from pcfgnat.runtimes.onnx import ExportedMetadata, OnnxRuntime
from pcfgnat.translator import Translator, describe_model
from tests.cli.conftest import World


def test_export_with_a_shortlist(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "onnx"
    arguments = ["--int8", "--shortlist", str(world.prepared), "--best", "9", "--output", str(output)]
    assert main(["export", str(world.grammar), *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"exported to {output}\n"
    assert "the shortlist keeps" in printed.err
    about = describe_model(output)
    assert isinstance(about, ExportedMetadata)
    assert about.shortlist is not None
    assert (about.precision, about.shortlist.sentences) == ("int8", 6)
    translator = Translator.load(output)
    assert isinstance(translator.runtime, OnnxRuntime)
    assert main(["translate", "--model", str(output), "--exact", "--threads", "1", "ja"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_the_shortlist_of_prepared_data_is_taken(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, output = tmp_path / "data", tmp_path / "onnx"
    text = ["--train", str(world.root / "train"), "--valid", str(world.root / "valid")]
    pairs = [*text, "--source", "de", "--target", "zh", "--tokenizer", str(world.prepared / "tokenizer")]
    assert main(["prepare", *pairs, "--shortlist", "--output", str(data)]) == 0
    assert main(["export", str(world.grammar), "--shortlist", str(data), "--output", str(output)]) == 0
    assert "learning the shortlist" not in capsys.readouterr().err
    kept, taken = (directory / "shortlist.safetensors" for directory in (data, output))
    assert taken.read_bytes() == kept.read_bytes()
    again = ["--best", "3", "--output", str(tmp_path / "again")]
    assert main(["export", str(world.grammar), "--shortlist", str(data), *again]) == 0
    assert "learning the shortlist" in capsys.readouterr().err


def test_wrong_wishes(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(world.teacher), "--ctranslate2"]) == 2
    assert "--ctranslate2 needs --output" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--output", str(tmp_path / "x")]) == 2
    assert "must be a checkpoint, but it has no checkpoint.toml" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_teacher_runs_without_torch(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(world.teacher), "--output", str(tmp_path / "x")]) == 0
    capsys.readouterr()
    asked = ["translate", "zwei drei", "--threads", "1", "--model"]
    assert main([*asked, str(tmp_path / "x")]) == 0
    found = capsys.readouterr().out
    assert main([*asked, str(world.teacher)]) == 0
    assert capsys.readouterr().out == found
