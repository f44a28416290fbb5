"""Trainings that take a second."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

from pcfgnat.config import from_dict, override
from pcfgnat.storage.toml import dump_toml
from pcfgnat.training import TrainConfig

TIMES = ("seconds", "tokens_per_second", "validation_seconds")
CHILD = """
import sys
from pcfgnat.storage.toml import load_config
from pcfgnat.training import TrainConfig, train
try:
    result = train(load_config(TrainConfig, sys.argv[1]))
    sys.exit(3 if result.interrupted else 0)
except ValueError as error:
    sys.exit(f"error: {error}")
"""


def settings(data: Path, output: Path, *changes: str) -> dict[str, Any]:
    """Settings of a run as they stand in a file; changes look like those of the command line.

    The objective is one that fits the network, unless the changes name another.
    """
    transformer = {"layers_encoder": 1, "layers_decoder": 1, "width": 16, "ffn": 32, "heads": 2}
    plain = {
        "data": str(data),
        "output": str(output),
        "steps": 12,
        "threads": 1,
        "log_every": 1,
        "device": "cpu",
        "curves": False,
        "tensorboard": False,
        "network": {"name": "slots", "transformer": transformer},
        "objective": {},
        "batches": {"sentences": 8},
        "optimiser": {"rate": 0.01, "warm_up": 4},
        "validation": {"every": 5},
    }
    changed = override(plain, changes)
    own = {"autoregressive": "cross_entropy", "flowseq": "flowseq", "hybrid": "hybrid"}
    likely = own.get(changed["network"]["name"], "likelihood")
    return {**changed, "objective": {"name": likely, **changed["objective"]}}


def small_run(data: Path, output: Path, *changes: str) -> TrainConfig:
    return from_dict(TrainConfig, settings(data, output, *changes))


def started(directory: Path, plain: dict[str, Any], before: str = "") -> subprocess.Popen[str]:
    """Train in a process of its own; `before` is code that it runs first."""
    directory.mkdir(exist_ok=True)
    path = directory / "config.toml"
    path.write_text(dump_toml(plain), encoding="utf-8")
    command = [sys.executable, "-c", before + CHILD, str(path)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figures(path: Path) -> list[dict[str, str]]:
    """All that a log says but times."""
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows(path)]


def hidden(directory: Path) -> list[str]:
    """Names of files that are being written, and of what was left of them."""
    return [str(path) for path in directory.rglob(".*") if path.name != ".lock"]
