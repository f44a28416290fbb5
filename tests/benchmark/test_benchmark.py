"""`pcfgnat benchmark`: trained models in separate processes."""

import json
from pathlib import Path

import pytest

from pcfgnat.benchmark.contender import parse_contender
from pcfgnat.benchmark.machine import machine, summary
from pcfgnat.benchmark.results import Results
from pcfgnat.cli import main
from pcfgnat.export.ctranslate2 import convert
from tests.cli.conftest import World


def test_a_model_says_how_it_is_decoded(world: World) -> None:
    found = parse_contender(f"a={world.grammar}:greedy+exact")
    assert (found.name, found.runtime, found.decode, found.shortlist) == ("a", "torch", "greedy", False)
    assert parse_contender(f"a={world.grammar}").decode is None
    with pytest.raises(ValueError, match="a model must look like NAME=DIR"):
        parse_contender(f"a={world.grammar}:greedy+beam")


def test_trained_models_are_judged_by_bleu_too(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(world.teacher, tmp_path / "foreign")
    command = [
        "benchmark",
        "--models",
        f"ours={world.teacher}:greedy",
        f"theirs={tmp_path / 'foreign'}:greedy",
    ]
    command += ["--data", str(world.prepared), "--sentences", "3", "--batches", "1", "--rounds", "1"]
    output = tmp_path / "out"
    assert main([*command, "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "BLEU and time" in printed
    results = Results.load(output)
    assert not results.failures
    assert set(results.quality) == {"ours", "theirs"}
    assert (output / "quality-1.png").stat().st_size > 1000
    assert main(["benchmark", "--report", str(output)]) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--models", "a=nowhere", "--data", "x"], "a model must be a directory, but there is no nowhere"),
        (["--models", "nowhere", "--data", "x"], "a model must look like NAME=DIR"),
        (["--models", "a=."], "--models needs --data"),
    ],
)
def test_bad_input(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", *arguments, "--output", str(tmp_path)]) == 2
    assert complaint in capsys.readouterr().err


def test_the_machine_is_described() -> None:
    facts = machine()
    assert facts["packages"]["torch"]
    assert facts["processor"] in summary(facts)
    json.dumps(facts)
