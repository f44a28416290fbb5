"""The directory of a run: who may write to it, and what must be removed before it resumes."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pcfgnat.config import to_dict
from pcfgnat.storage.files import lock, write_atomically
from pcfgnat.storage.toml import dump_toml
from pcfgnat.training.config import TrainConfig, TrainingError, check_same_run
from pcfgnat.training.record.state import StateStore

CONFIG, LOCK = "config.toml", ".lock"
OWN = ("state", "best", "final", "tensorboard", "faults", "log.csv", "valid.csv", "curves.png")


class RunDirectory:
    """Names of all that a run writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log, self.valid, self.curves = (path / name for name in ("log.csv", "valid.csv", "curves.png"))
        self.tensorboard, self.best, self.final = (path / name for name in ("tensorboard", "best", "final"))
        self.faults = path / "faults"
        self.states = StateStore(path / "state")

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step is kept."""
        return self.best / f"step-{step}"

    def prune(self, steps: set[int]) -> None:
        """Remove all kept checkpoints but those of these steps."""
        wanted = {self.checkpoint(step) for step in steps}
        for path in self.best.iterdir() if self.best.is_dir() else ():
            if path not in wanted:
                shutil.rmtree(path)


@contextmanager
def claimed(config: TrainConfig, patience: float = 0.0) -> Iterator[RunDirectory]:
    """Make or take over a run's directory; no other process can have it in this block.

    `patience` is how many seconds to wait for another one that may be about to end.
    """
    path = config.output
    _check_is_run(path)
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    with _locked(path, patience):
        run = RunDirectory(path)
        try:
            _clear_partial(path)
            if run.states.saves():
                check_same_run(config, path / CONFIG)
            else:
                _clear_all(path)
            write_atomically(path / CONFIG, dump_toml(to_dict(config)).encode())
            yield run
        except BaseException:
            if not run.states.saves() and not run.log.exists():  # nothing that anyone could miss
                _clear_all(path)
                for name in (CONFIG, LOCK):
                    (path / name).unlink(missing_ok=True)
                if new:
                    path.rmdir()
            raise


def _check_is_run(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise TrainingError(f"output must be a directory, got the file {path}")
    strange = path.is_dir() and not (path / CONFIG).exists() and {p.name for p in path.iterdir()} - {LOCK}
    if strange:
        raise TrainingError(f"{path} must be new, empty or a training run, but has no {CONFIG}")


@contextmanager
def _locked(path: Path, patience: float) -> Iterator[None]:
    handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    end = time.monotonic() + patience
    try:
        while not (free := lock(handle)) and time.monotonic() < end:
            time.sleep(0.2)
        if not free:
            raise TrainingError(f"another process is training in {path}")
        yield
    finally:
        os.close(handle)


def _clear_partial(path: Path) -> None:
    """Remove what a killed process was writing."""
    for place in (path, path / "state", path / "best", path / "faults"):
        for left in place.glob(".*.*") if place.is_dir() else ():
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def _clear_all(path: Path) -> None:
    """Start over: no save exists, so nothing can be resumed."""
    for name in OWN:
        left = path / name
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
