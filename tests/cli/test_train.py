"""`pcfgnat train`: recipes by name, lists and prints of them, and what the starter says."""

import tomllib
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.cli import main
from tests.cli.conftest import World

Capture = pytest.CaptureFixture[str]
SIZES = ("width=8", "ffn=8", "heads=1", "layers_encoder=1", "layers_decoder=1")
SMALL = [*(f"network.transformer.{size}" for size in SIZES), "steps=1", "threads=1", "curves=false"]


def out(capsys: Capture, *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def error(capsys: Capture, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("pcfgnat: error: ")


def test_recipes_are_listed(capsys: Capture) -> None:
    lines = out(capsys, "train", "--list").splitlines()
    assert {"starter", "pcfg", "paper/pcfg_en_de"} <= {line.split()[0] for line in lines}
    assert max(map(len, lines)) <= 110


def test_settings_are_printed(world: World, capsys: Capture) -> None:
    changes = ("optimiser.rate=5e-4", f"data={world.prepared}")
    text = out(capsys, "train", "dag", "--print", *changes)  # also after an option
    assert text == out(capsys, "train", "dag", *changes, "--print")
    plain = tomllib.loads(text)
    assert plain["optimiser"]["rate"] == 5e-4
    assert plain["data"] == str(world.prepared)


def test_what_is_wrong_is_said_in_one_line(world: World, capsys: Capture) -> None:
    assert error(capsys, "train", "pcfg") == "missing: data (a path), output (a path)"
    assert "TOML file or one of vanilla, " in error(capsys, "train", "vanlla")
    assert error(capsys, "train").startswith("RECIPE is missing; pcfgnat train --list")
    places = (f"data={world.prepared}", "output=x")
    assert error(capsys, "train", "pcfg", *places, "validation.keep=0").startswith("validation.keep must be")
    with pytest.raises(SystemExit, match="2"):
        main(["train", "dag", "--print", "nonsense"])
    assert "unrecognized arguments: nonsense" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["info", str(world.grammar), "--json", "a=b"])
    assert "unrecognized arguments: a=b" in capsys.readouterr().err


def test_starter_says_what_it_chose(world: World, tmp_path: Path, capsys: Capture) -> None:
    arguments = ("train", "starter", f"data={world.prepared}", f"output={tmp_path / 'run'}")
    assert main([*arguments, *SMALL, "network.rules.heads=1"]) == 0
    said = capsys.readouterr().err
    assert "chosen: network.transformer.dropout=0.3 (60 sentence pairs are a very small corpus)" in said
    assert "chosen: network.upsampling=" in said
    assert Checkpoint.open(tmp_path / "run" / "final").metadata.network["name"] == "pcfg"


def test_quiet_training_says_results_only(world: World, tmp_path: Path, capsys: Capture) -> None:
    places = (f"data={world.prepared}", f"output={tmp_path / 'run'}")
    assert main(["train", "autoregressive", *places, *SMALL, "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.endswith(f"the model is in {tmp_path / 'run' / 'final'}\n")
