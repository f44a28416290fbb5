"""All that a run needs to resume exactly where it was, on the disk.

`state/` has one directory for each of the last two saves: tensors in `state.safetensors`, the rest in
`state.toml`, with the checksums of both. A save appears whole, and the last but one goes only then.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from pcfgnat.checkpoints.metadata import CheckpointError, sha256_of
from pcfgnat.checkpoints.weights import read_tensors
from pcfgnat.config import ConfigError, to_dict
from pcfgnat.storage.files import atomic_directory
from pcfgnat.storage.toml import load_config, sealed_toml
from pcfgnat.training.config import TrainingError

TENSORS, FACTS = "state.safetensors", "state.toml"
KEPT_SAVES = 2
NUMBERED = re.compile(r"\d{6,}")


@dataclass(frozen=True)
class Best:
    """A checkpoint that is kept for its BLEU."""

    step: int
    bleu: float


@dataclass
class Interval:
    """Sums over the steps since the last row of the log."""

    steps: int = 0
    counted: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    grad_norm: float = 0.0
    tokens: int = 0
    skipped: int = 0
    bad: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    metric_steps: dict[str, int] = field(default_factory=dict)


@dataclass
class RunState:
    """Where a run is.

    step:            steps done; steps with bad gradients count as well
    epoch, batch:    the epoch, and how many of its batches are done; `epoch_batches` is how many it has
    seconds:         time of training over all restarts
    updates:         steps that changed the weights
    best:            the best validations, best first
    validated_step:  step of the last validation, -1 if there was none, and its time
    stale:           validations since the last gain of BLEU
    bad_in_a_row:    steps since the last one without a fault; `bad_steps` counts all that had one
    recent_losses:   per target token, of the last steps without a fault: what a spike is measured by
    """

    data_sha256: str = ""
    step: int = 0
    epoch: int = 0
    batch: int = 0
    epoch_batches: int = 0
    seconds: float = 0.0
    updates: int = 0
    tokens: int = 0
    best: list[Best] = field(default_factory=list)
    validated_step: int = -1
    validated_seconds: float = 0.0
    stale: int = 0
    bad_in_a_row: int = 0
    bad_steps: int = 0
    recent_losses: list[float] = field(default_factory=list)
    interval: Interval = field(default_factory=Interval)

    @property
    def epochs(self) -> float:
        """Epochs done, with the fraction of the one that is going on."""
        return self.epoch + (self.batch / self.epoch_batches if self.epoch_batches else 0.0)


@dataclass(frozen=True)
class _File:
    """What `state.toml` says."""

    format: Literal[1]
    sha256: str
    run: RunState


class StateStore:
    """The saves of a run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def saves(self) -> list[Path]:
        """Directories of all saves, the newest first."""
        if not self.directory.is_dir():
            return []
        found = [path for path in self.directory.iterdir() if NUMBERED.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.name), reverse=True)

    def save(self, run: RunState, tensors: Mapping[str, Tensor]) -> None:
        """Write a save, then remove all but the last ones."""
        saves = self.saves()
        number = int(saves[0].name) + 1 if saves else 1
        content = to_safetensors({name: tensor.detach().cpu() for name, tensor in tensors.items()})
        facts = _File(1, hashlib.sha256(content).hexdigest(), run)
        with atomic_directory(self.directory / f"{number:06d}") as partial:
            (partial / TENSORS).write_bytes(content)
            (partial / FACTS).write_text(sealed_toml(to_dict(facts)), encoding="utf-8")
        for old in saves[KEPT_SAVES - 1 :]:
            shutil.rmtree(old)

    def load(self, say: Callable[[str], None]) -> tuple[RunState, dict[str, Tensor]] | None:
        """Read the newest save that is whole; none if there is no save at all."""
        saves = self.saves()
        for number, save in enumerate(saves):
            try:
                found = _read(save)
            except (CheckpointError, ConfigError) as error:
                say(f"{error}; trying the save before it")
                continue
            for damaged in saves[:number]:
                damaged.rename(damaged.with_name(f".{damaged.name}.damaged"))  # or it would stay the newest
            return found
        if saves:
            raise TrainingError(
                f"no save in {self.directory} is whole; delete {self.directory} to start over"
            )
        return None

    def needed_steps(self) -> set[int]:
        """Steps of the checkpoints that the saves name as the best; a save that is damaged names none."""
        steps = set()
        for save in self.saves():
            with suppress(ConfigError):
                steps |= {best.step for best in _facts(save).run.best}
        return steps


def random_states() -> dict[str, Tensor]:
    """States of torch's random number generators."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def restore_random_states(states: Mapping[str, Tensor]) -> None:
    """Set torch's random number generators."""
    torch.set_rng_state(states["cpu"])
    cuda = [state for name, state in sorted(states.items()) if name.startswith("cuda")]
    if cuda and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(cuda)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put `prefix:` before every name."""
    return {f"{prefix}:{name}": tensor for name, tensor in tensors.items()}


def without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that `prefixed` named."""
    start = f"{prefix}:"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _facts(save: Path) -> _File:
    return load_config(_File, save / FACTS)


def _read(save: Path) -> tuple[RunState, dict[str, Tensor]]:
    facts = _facts(save)
    found = sha256_of(save / TENSORS)
    if found != facts.sha256:
        raise CheckpointError(f"{save / TENSORS} is damaged: its sha256 must be {facts.sha256}, got {found}")
    return facts.run, read_tensors(save / TENSORS)
