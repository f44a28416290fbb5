"""Every example of docs/decoding.md runs, and every strategy has one."""

import re
import shlex
from pathlib import Path

import pytest

from pcfgnat.cli import main
from pcfgnat.decoding import STRATEGIES
from tests.runtimes.models import save_model
from tests.test_readme import blocks

PAGE = "docs/decoding.md"
COMMANDS = [
    line for language, text in blocks(PAGE) if language == "sh" for line in text.splitlines() if line.strip()
]
MODELS = {
    "pcfg": "depth 1",
    "dag": "dag",
    "ctc": "ctc",
    "imputer": "imputer",
    "vanilla": "slots",
    "cmlm": "slots",
    "disco": "disco",
    "transformer": "autoregressive",
    "hybrid": "hybrid",
    "flowseq": "flowseq",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models of one tokenizer, under the names of the page."""
    place = tmp_path_factory.mktemp("models")
    for directory, name in MODELS.items():
        save_model(place / directory, name)
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_translate(
    command: str, models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(models)
    program, *arguments = shlex.split(command)
    assert program == "pcfgnat"
    assert main([*arguments, "--threads", "1"]) == 0
    assert capsys.readouterr().out.strip()


def test_the_python_example_runs(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(models)
    (code,) = [text for language, text in blocks(PAGE) if language == "python"]
    exec(compile(code, PAGE, "exec"), {"__name__": "__main__"})
    assert re.fullmatch(r"[1-9]\d* rounds, \d+ tokens accepted\n", capsys.readouterr().out)


def test_every_strategy_has_an_example() -> None:
    named = {match for command in COMMANDS for match in re.findall(r"--decode ([a-z-]+)", command)}
    assert named == {kind.name for kind in STRATEGIES}
