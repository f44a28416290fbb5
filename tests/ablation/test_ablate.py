"""Grids that are trained, killed, gone on with, and partly impossible."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pcfgnat.ablation import Judge, Outcome, ablate, read_grid
from pcfgnat.config import ConfigError
from pcfgnat.storage.toml import dump_toml
from pcfgnat.text import LearnSettings, PrepareSettings, prepare
from tests.text.bilingual import sentences, write_pair
from tests.training.small_runs import settings

PATIENCE = 200


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    pairs = [pair for pair in sentences(200, 0) if len(pair[0]) < 80]
    parts = {"train": pairs[:60], "valid": pairs[60:64], "test": pairs[64:68]}
    train, valid, test = (write_pair(directory, name, part) for name, part in parts.items())
    learn = LearnSettings(vocabulary_size=200)
    prepare(PrepareSettings(directory / "data", (train,), valid, test, "de", "zh", learn=learn))
    return directory / "data"


def written(directory: Path, data: Path, *changes: str) -> str:
    path = directory / "config.toml"
    path.write_text(dump_toml(settings(data, directory / "unused", *changes)))
    return str(path)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    for _ in range(50 * PATIENCE):
        if condition():
            return
        assert process.poll() is None, f"ended before {what}"
        time.sleep(0.02)
    raise AssertionError(f"no {what}")


def killed_in(cell: Path, arguments: list[str]) -> None:
    """Start an ablation, and kill it when a cell has begun to learn; its training saves, and ends too."""
    command = [sys.executable, "-m", "pcfgnat", "ablate", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    log = cell / "log.csv"
    wait_until(lambda: log.exists() and log.read_text().count("\n") > 2, process, "step")
    process.send_signal(signal.SIGKILL)
    process.wait()


def gone_on(config: str, axes: list[str], output: Path, said: list[str]) -> list[Outcome]:
    """Start it again, as soon as the orphaned training has let go."""
    for _ in range(10 * PATIENCE):
        try:
            return ablate(read_grid(config, axes, output), Judge(), said.append)
        except ConfigError as error:
            if "another process is at work" not in str(error):
                raise
            time.sleep(0.1)
    raise AssertionError("never let go")


def test_a_cell_is_trained_and_judged_once(data: Path, tmp_path: Path) -> None:
    grid = read_grid(written(tmp_path, data), ["steps=2", "decode=greedy,beam"], tmp_path / "out")
    said: list[str] = []
    found = ablate(grid, Judge(limit=3), said.append)
    assert [outcome.status for outcome in found] == ["done", "failed"]
    assert (found[0].steps, found[0].test) == (2, f"{data} test, first 3")
    assert "the strategy must be one of greedy, sample" in found[1].error
    assert said[0] == "cell 1 of 1: steps-2"
    again: list[str] = []
    less = read_grid(grid.config, ["steps=2", "decode=greedy"], grid.output)
    assert ablate(less, Judge(limit=3), again.append) == found[:1]
    assert again == []
    assert {path.suffix for path in grid.output.glob("ablation.*")} == {".csv", ".json", ".md", ".png"}


def test_exported_models_are_timed(data: Path, tmp_path: Path) -> None:
    config = written(tmp_path, data, "network.name=pcfg", "steps=2", "validation.every=2")
    grid = read_grid(config, ["lambda=1,2", "decode=viterbi"], tmp_path / "out")
    said: list[str] = []
    found = ablate(grid, Judge(limit=3, threads=1, int8=True), said.append)
    assert [(outcome.status, outcome.precision) for outcome in found] == [("done", "int8")] * 2
    assert all((one.ms_alone or 0) > 0 and (one.ms_together or 0) > 0 for one in found)
    assert said[-1] == "timing 2 models in turns"
    table = (grid.output / "ablation.md").read_text()
    assert "batch 1, ms" in table
    assert "batch 32, ms" in table
    floats = ablate(grid, Judge(limit=3), said.append)
    assert [(outcome.precision, outcome.ms_alone) for outcome in floats] == [("float32", None)] * 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_gone_on_with_and_partly_impossible(data: Path, tmp_path: Path) -> None:
    config = written(tmp_path, data, "steps=300", "validation.every=300")
    axes = [f"data={data},{tmp_path / 'nowhere'}", "decode=greedy,beam"]
    output = tmp_path / "out"
    killed_in(output / "data-data", [config, *axes, "--output", str(output)])
    said: list[str] = []
    found = gone_on(config, axes, output, said)
    assert f"going on with {output / 'data-data'}" in (output / "data-data.log").read_text()
    assert [outcome.status for outcome in found] == ["done", "failed", "failed", "failed"]
    assert found[0].steps == 300
    assert "the strategy must be one of greedy, sample" in found[1].error
    assert "nowhere must be a prepared directory" in found[3].error
    assert said[0] == "cell 1 of 2: data-data"
    rows = json.loads((output / "ablation.json").read_text())["outcomes"]
    assert [row["status"] for row in rows] == [outcome.status for outcome in found]
    again: list[str] = []
    finished = ablate(read_grid(config, [f"data={data}", "decode=greedy"], output), Judge(), again.append)
    assert (finished, again) == (found[:1], [])  # nothing was done once more


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_grid_of_grammars_killed_and_gone_on_with(data: Path, tmp_path: Path) -> None:
    config = written(tmp_path, data, "network.name=pcfg", "steps=2", "validation.every=2")
    axes = ["lambda=1,2", "glancing=on,off", "decode=viterbi,greedy"]
    output = tmp_path / "out"
    second = output / "lambda-1_glancing-off"
    killed_in(second, [config, *axes, "--output", str(output)])
    first = (output / "lambda-1_glancing-on" / "log.csv").stat().st_mtime_ns
    said: list[str] = []
    found = gone_on(config, axes, output, said)
    assert [outcome.status for outcome in found] == ["done"] * 8
    assert said[0] == "cell 2 of 4: lambda-1_glancing-off"
    assert (output / "lambda-1_glancing-on" / "log.csv").stat().st_mtime_ns == first
    assert found[0].bleu is not None
    assert {outcome.settings["decode"] for outcome in found} == {"viterbi", "greedy"}
