"""`pcfgnat export`, on the small checkpoints of the other commands."""

from pathlib import Path

import pytest

from pcfgnat.cli import main
from pcfgnat.engine import Engine, EngineDescription
from pcfgnat.translator import Translator, describe_model
from tests.cli.conftest import World


def test_export_with_a_shortlist(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "engine"
    arguments = ["--int8", "--shortlist", str(world.prepared), "--best", "9", "--output", str(output)]
    assert main(["export", str(world.grammar), *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"exported to {output}\n"
    assert "the shortlist keeps" in printed.err
    about = describe_model(output)
    assert isinstance(about, EngineDescription)
    assert about.shortlist is not None
    assert (about.precision, about.shortlist.sentences) == ("int8", 6)
    translator = Translator.load(output)
    assert isinstance(translator.model, Engine)
    assert main(["translate", "--model", str(output), "--exact", "--threads", "1", "ja"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_wrong_wishes(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(world.teacher), "--output", str(tmp_path / "x")]) == 2
    assert "is of kind autoregressive" in capsys.readouterr().err
    assert main(["export", str(world.teacher), "--ctranslate2"]) == 2
    assert "--ctranslate2 needs --output" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
