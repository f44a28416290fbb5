"""What runs the teacher of `pcfgnat distill`: CTranslate2 where it can, torch otherwise, as the job says."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from pcfgnat.cli import main, teacher
from pcfgnat.storage.growing import Progress
from pcfgnat.storage.toml import load_config
from tests.cli.conftest import World
from tests.cli.test_commands import LINES, Capture, error, written


def distilled(capsys: Capture, model: Path, place: Path, *options: str) -> tuple[list[str], Progress, str]:
    """Distil a text; return what was written, the record and what was said on the way."""
    source = written(place / "source.txt", *LINES)
    output = ["--input", str(source), "--output", str(place / "out"), "--suffixes", "a", "b"]
    assert main(["distill", "--model", str(model), *output, *options]) == 0
    lines = (place / "out.b").read_text(encoding="utf-8").splitlines()
    return lines, load_config(Progress, place / "out.distill.toml"), capsys.readouterr().err


def without_ctranslate2(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str) -> ModuleSpec | None:
        return None if name == "ctranslate2" else real(name)

    monkeypatch.setattr(teacher, "find_spec", find_spec)


@pytest.mark.parametrize("strategy", ["greedy", "beam:size=3"])
def test_ctranslate2_and_torch_write_the_same(
    strategy: str, world: World, tmp_path: Path, capsys: Capture
) -> None:
    for runtime in ("auto", "torch"):
        (tmp_path / runtime).mkdir()
    fast, record, said = distilled(capsys, world.teacher, tmp_path / "auto", "--decode", strategy)
    slow, other, _ = distilled(
        capsys, world.teacher, tmp_path / "torch", "--decode", strategy, "--runtime", "torch"
    )
    assert (record.job["runtime"], other.job["runtime"]) == ("ctranslate2", "torch")
    assert record.job["precision"] == "float32"
    assert "torch" not in said
    assert len(fast) == len(slow) == len(LINES)
    assert fast == slow


def test_int8_is_recorded(world: World, tmp_path: Path, capsys: Capture) -> None:
    _, record, _ = distilled(capsys, world.teacher, tmp_path, "--precision", "int8")
    assert (record.job["runtime"], record.job["precision"]) == ("ctranslate2", "int8")


def test_falls_back_to_torch_and_says_so(
    world: World, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ctranslate2(monkeypatch)
    _, record, said = distilled(capsys, world.teacher, tmp_path, "--decode", "greedy")
    assert record.job["runtime"] == "torch"
    assert "translating with torch, which is slower than CTranslate2: it is not installed" in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--decode", "sample"), "its strategies are beam and greedy, got sample"),
        (("--device", "cuda"), "it is used on cpu only, got --device cuda"),
    ],
)
def test_what_ctranslate2_cannot_do_is_refused_in_one_line(
    options: tuple[str, ...], reason: str, world: World, tmp_path: Path, capsys: Capture
) -> None:
    source = written(tmp_path / "source.txt", *LINES)
    files = ("--model", world.teacher, "--input", source, "--output", tmp_path / "out")
    message = error(capsys, "distill", *files, *options, "--runtime", "ctranslate2")
    assert message == f"cannot run {world.teacher} in CTranslate2: {reason}"


def test_a_grammar_runs_as_ever_without_a_word(world: World, tmp_path: Path, capsys: Capture) -> None:
    _, record, said = distilled(capsys, world.grammar, tmp_path)
    assert record.job["runtime"] == "torch"
    assert "CTranslate2" not in said
    message = error(
        capsys, "distill", "--model", world.grammar, "--input", tmp_path / "source.txt",
        "--output", tmp_path / "other", "--precision", "int8",
    )  # fmt: skip
    assert message == (
        "--precision int8 needs CTranslate2, but it runs autoregressive networks only, got pcfg"
    )


def test_a_job_is_resumed_with_the_runtime_that_it_was_started_with(
    world: World, tmp_path: Path, capsys: Capture
) -> None:
    distilled(capsys, world.teacher, tmp_path, "--decode", "greedy", "--runtime", "torch")
    assert distilled(capsys, world.teacher, tmp_path, "--decode", "greedy")[1].job["runtime"] == "torch"
    arguments: list[str | Path] = ["--model", world.teacher, "--input", tmp_path / "source.txt"]
    arguments += ["--output", tmp_path / "out"]
    message = error(
        capsys,
        "distill",
        *arguments,
        "--suffixes",
        "a",
        "b",
        "--decode",
        "greedy",
        "--runtime",
        "ctranslate2",
    )
    assert message.startswith("cannot resume: runtime changed from torch to ctranslate2; ")
