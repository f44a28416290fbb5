"""`pcfgnat benchmark`: trained models in separate processes."""

import json
from pathlib import Path

import pytest

from pcfgnat.benchmark.contender import Case, parse_contender
from pcfgnat.benchmark.machine import machine, summary
from pcfgnat.benchmark.results import Results
from pcfgnat.benchmark.run import by_length
from pcfgnat.benchmark.runners import load_runner
from pcfgnat.cli import main
from pcfgnat.export.ctranslate2 import convert
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import bundled_model
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
    command += ["--threads", "1,2", "--lengths", "6"]
    output = tmp_path / "out"
    assert main([*command, "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "BLEU and time" in printed
    results = Results.load(output)
    assert not results.failures
    assert "batch 1, by threads: ms for a batch, p50, p99 (p99/p50)" in printed
    assert [(one.contender, one.threads, one.ran) for one in results.memory] == [
        (name, threads, f"{runtime} float32, greedy")
        for threads in (1, 2)
        for name, runtime in (("ours", "torch"), ("theirs", "ctranslate2"))
    ]
    assert {case.length for case in results.cases(2)} == {0, 6}
    assert set(results.quality) == {"ours", "theirs"}
    assert (output / "quality-1.png").stat().st_size > 1000
    assert main(["benchmark", "--report", str(output)]) == 0
    assert capsys.readouterr().out == printed


def test_a_checkpoint_runs_as_in_translate() -> None:
    bundled = bundled_model()
    assert parse_contender(f"a={bundled}").runtime == "native"
    assert parse_contender(f"a={bundled}:torch+greedy").runtime == "torch"
    assert parse_contender(f"a={bundled / 'onnx'}:onnx").runtime == "onnx"
    with pytest.raises(ValueError, match="a model must look like NAME=DIR"):
        parse_contender(f"a={bundled}:torch+onnx")
    runner = load_runner(parse_contender(f"a={bundled}:exact"), threads=1)
    assert runner.description.startswith("native int8, ")


def test_sentences_are_chosen_by_length() -> None:
    tokenizer = SubwordTokenizer(b"a\n")
    source = ["a", "a a a", "a a", "a a a a a a", "a a a"]
    cases = [Case(0, 1), Case(5, 2), Case(8, 1)]
    found = by_length(source, tokenizer, cases)
    assert set(found) == {5, 8}
    assert (found[5][0], found[8][0]) == ("a a a", "a a a a a a")
    assert len(found[5]) == 4  # each once
    assert by_length(source, None, cases[:1]) == {}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--models", "a=nowhere", "--data", "x"], "a model must be a directory, but nowhere does not exist"),
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
