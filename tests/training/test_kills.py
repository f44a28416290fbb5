"""Training that is killed at random moments, and on a disk that fills up, ends as if nothing had happened."""

import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.storage.toml import dump_toml
from pcfgnat.training import train
from tests.support.forked import forked
from tests.text.bilingual import tree
from tests.training.small_runs import figures, hidden, settings, small_run

# A save after every step, so that many kills hit one; logs run ahead of validations.
EVERYTHING = (
    *("steps=20", "validation.every=6", "validation.keep=2", "log_every=1", "ema.decay=0.9"),
    *("batches.accumulate=2", "save_every_minutes=1e-9"),
)


def compare(output: Path, whole: Path) -> None:
    """Everything that both runs left must be the same but for times."""
    for log in ("log.csv", "valid.csv"):
        assert figures(output / log) == figures(whole / log)
    for name in ("final", *(f"best/{path.name}" for path in (whole / "best").iterdir())):
        weights = [Checkpoint.open(run / name).metadata.weights_sha256 for run in (output, whole)]
        assert weights[0] == weights[1]
    assert not hidden(output)
    names = [{name for name in tree(run) if not name.startswith("state/")} for run in (output, whole)]
    assert names[0] == names[1]
    assert len(list((output / "state").iterdir())) == 2


def killed(data: Path, place: Path, kills: int, seed: int, *changes: str) -> tuple[int, int]:
    """Kill so many times, begin a new run whenever one is finished; return ends and starts from a save."""
    whole, output, config = place / "whole", place / "run", place / "config.toml"
    train(small_run(data, whole, *changes))
    config.write_text(dump_toml(settings(data, output, *changes)), encoding="utf-8")
    command = ["train", str(config)]
    chance, finished, done = random.Random(seed), 0, 0
    with forked(place / "said.txt") as process:
        longest = process.seconds(command)
        while done <= kills:
            code = process.run(command, chance.uniform(0, longest) if done < kills else None)
            if code == -signal.SIGKILL:
                done += 1
                continue
            assert code == 0, process.said()
            compare(output, whole)
            shutil.rmtree(output)
            finished += 1
            done += done == kills
        said = process.said()
    assert "Traceback" not in said
    return finished, said.count("resuming ")


@pytest.mark.slow  # the default suite has one in test_resume.py
@pytest.mark.timeout(900)
def test_three_kills(data: Path, tmp_path: Path) -> None:
    killed(data, tmp_path, 3, 1, *EVERYTHING, "steps=7", "validation.every=3")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished, resumed = killed(data, tmp_path, 50, 2, *EVERYTHING)
    with capsys.disabled():
        print(f"50 kills: {resumed} starts resumed from a save, {finished} runs came to their end")
    assert resumed > 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A disk of so many bytes; asked for again it becomes larger and keeps what is on it."""
    place = tmp_path / "disk"
    place.mkdir()

    def sized(size: int) -> Path:
        again = ["remount"] if place.is_mount() else []
        options = ",".join([*again, f"size={size}"])
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
        return place

    yield sized
    if place.is_mount():
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_disk_that_fills_up(data: Path, tmp_path: Path, small_disk: Callable[[int], Path]) -> None:
    """The disk is too small at first and grows by a little each time; every failure is clean."""
    whole = tmp_path / "whole"
    train(small_run(data, whole, *EVERYTHING))
    needed = sum(len(content) for content in tree(whole).values())
    size, failures, config = needed // 3, 0, tmp_path / "config.toml"
    output = small_disk(size) / "run"
    config.write_text(dump_toml(settings(data, output, *EVERYTHING)), encoding="utf-8")
    with forked(tmp_path / "said.txt") as process:
        while process.run(["train", str(config)]) != 0:
            failures += 1
            assert process.said().splitlines()[-1].endswith("No space left on device")
            assert not hidden(output)
            size += needed // 6
            small_disk(size)
        assert "Traceback" not in process.said()
    assert failures > 1
    compare(output, whole)
