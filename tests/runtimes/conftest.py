"""Exported models, made once for all tests and all processes of a run."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from pcfgnat.export.onnx import ExportSettings, export_onnx
from tests.runtimes.models import save_model


@dataclass(frozen=True)
class Exports:
    """Makes models where they are missing. Tests must not write to them."""

    place: Path

    def __call__(self, name: str, int8: bool = False, factor: float = 1.7) -> tuple[Path, Path]:
        """Return the directories of a checkpoint and of its export."""
        place = self.place / f"{name} {'int8' if int8 else 'float32'} {factor}"
        place.mkdir(parents=True, exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (place / "onnx").exists():
                save_model(place / "model", name, factor=factor)
                export_onnx(place / "model", place / "onnx", ExportSettings(int8))
        return place / "model", place / "onnx"


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Exports:
    own = tmp_path_factory.getbasetemp()
    return Exports((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "exports")
