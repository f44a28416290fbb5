"""Runs that were stopped or killed go on as if nothing had happened."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.training import TrainingError, train
from pcfgnat.training.signals import StopSignals
from tests.training.small_runs import figures, hidden, rows, settings, small_run, started

# Long enough to be hit in the middle; logs run ahead of the saves; the last step of an epoch has one batch.
LONG = ("steps=60", "validation.every=12", "log_every=2", "ema.decay=0.9", "batches.accumulate=2")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run without interruption."""
    output = tmp_path_factory.mktemp("runs") / "whole"
    train(small_run(data, output, *LONG))
    return output


def stopped_at(child: subprocess.Popen[str], output: Path, step: int, number: signal.Signals) -> str:
    """Send a signal once a step is in the log, and return what the process said."""
    while child.poll() is None:
        if (output / "log.csv").exists() and len((output / "log.csv").read_bytes().splitlines()) > step // 2:
            os.kill(child.pid, number)
            break
        time.sleep(0.002)
    return child.communicate()[1]


def test_after_kill_9_and_after_ctrl_c(data: Path, whole: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    plain = settings(data, output, *LONG)
    killed = started(tmp_path / "first", plain)
    stopped_at(killed, output, 18, signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    before = int(rows(output / "log.csv")[-1]["step"])
    assert before < 60

    interrupted = started(tmp_path / "second", plain)
    said = stopped_at(interrupted, output, before + 6, signal.SIGINT)
    assert interrupted.returncode == 3, said
    assert "resuming" in said
    assert "SIGINT: saving after this step" in said
    assert "interrupted at step" in said
    assert before < int(rows(output / "log.csv")[-1]["step"]) < 60

    assert train(small_run(data, output, *LONG)).step == 60
    for log in ("log.csv", "valid.csv"):
        assert figures(output / log) == figures(whole / log)
    finals = [Checkpoint.open(run / "final").metadata.weights_sha256 for run in (output, whole)]
    assert finals[0] == finals[1]
    assert {path.name for path in (output / "best").iterdir()} == {
        path.name for path in (whole / "best").iterdir()
    }
    assert not hidden(output)


def test_a_stop_in_any_step_changes_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes before each step and each batch of validation in turn, from 0 on."""
    changes = ("steps=3", "validation.every=2", "log_every=2", "validation.batch=3", "network.name=ctc")
    train(small_run(data, tmp_path / "whole", *changes))
    asked = 0

    def every_third(signals: StopSignals) -> bool:
        nonlocal asked
        asked += 1
        return asked % 3 == 0

    monkeypatch.setattr(StopSignals, "stopped", every_third)
    starts = 1
    while train(small_run(data, tmp_path / "pieces", *changes)).interrupted:
        starts += 1
    assert starts > 2
    for log in ("log.csv", "valid.csv"):
        assert figures(tmp_path / "pieces" / log) == figures(tmp_path / "whole" / log)


def test_a_damaged_save_gives_way_to_the_one_before(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ("steps=12", "validation.every=4")
    train(small_run(data, tmp_path / "run", *changes))
    expected = figures(tmp_path / "run" / "log.csv")
    newest = max((tmp_path / "run" / "state").iterdir(), key=lambda path: path.name)
    tensors = newest / "state.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    train(small_run(data, tmp_path / "run", *changes))
    said = capsys.readouterr().err
    assert f"{tensors} is damaged: its sha256 must be" in said
    assert "resuming" in said
    assert figures(tmp_path / "run" / "log.csv") == expected


def test_if_no_save_is_whole_nothing_is_thrown_away(data: Path, tmp_path: Path) -> None:
    train(small_run(data, tmp_path / "run", "steps=2", "validation.every=1"))
    for tensors in (tmp_path / "run" / "state").glob("*/state.safetensors"):
        tensors.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"no save in .*state is whole"):
            train(small_run(data, tmp_path / "run", "steps=2", "validation.every=1"))
    assert (tmp_path / "run" / "final").is_dir()


def test_a_run_without_a_save_begins_anew(data: Path, tmp_path: Path) -> None:
    train(small_run(data, tmp_path / "run", "steps=2"))
    expected = figures(tmp_path / "run" / "log.csv")
    for save in (tmp_path / "run" / "state").iterdir():
        save.rename(save.with_name(f".{save.name}.partial"))  # as if killed while it was written
    train(small_run(data, tmp_path / "run", "steps=2"))
    assert figures(tmp_path / "run" / "log.csv") == expected
    assert not hidden(tmp_path / "run")


def test_a_final_checkpoint_that_is_missing_is_made_again(data: Path, tmp_path: Path) -> None:
    first = train(small_run(data, tmp_path / "run", "steps=4", "validation.every=2"))
    assert first.final is not None
    checksum = Checkpoint.open(first.final).metadata.weights_sha256
    first.final.rename(tmp_path / "moved")
    train(small_run(data, tmp_path / "run", "steps=4", "validation.every=2"))
    assert Checkpoint.open(first.final).metadata.weights_sha256 == checksum
