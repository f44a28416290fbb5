"""Settings of a training run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pcfgnat.checkpoints.metadata import Card, DecodingDefaults, differing_keys
from pcfgnat.config import ByName, ConfigError, from_dict, to_dict
from pcfgnat.networks import NETWORKS
from pcfgnat.objectives import OBJECTIVES, Objective
from pcfgnat.storage.toml import load_config
from pcfgnat.text import BatchSettings

MAY_CHANGE = (
    "data",
    "output",
    "steps",
    "epochs",
    "time_budget",
    "threads",
    "save_every_minutes",
    "curves",
    "tensorboard",
)
MAY_CHANGE_TABLES = ("validation.", "faults.", "distributed.", "card.")
MAX_SEED = 2**63 - 1


class TrainingError(ValueError):
    """A training run that cannot start or resume."""


@dataclass(frozen=True)
class BatchConfig:
    """Size of a step.

    tokens:     maximum number of tokens in a batch: pairs × longest sentence of either side, padding included
    sentences:  maximum number of sentence pairs in a batch; set tokens, sentences or both
    window:     batches within which sentences are sorted by length: fewer are more random, more pad less
    accumulate: batches whose gradients are summed for one step
    """

    tokens: int | None = None
    sentences: int | None = None
    window: int = 256
    accumulate: int = 1

    def __post_init__(self) -> None:
        self.settings(seed=0)
        _at_least("accumulate", self.accumulate, 1)

    def settings(self, seed: int) -> BatchSettings:
        """Return what plans the batches of an epoch."""
        return BatchSettings(self.tokens, self.sentences, self.window, shuffle=True, seed=seed)


@dataclass(frozen=True)
class OptimiserConfig:
    """AdamW, with weight decay for the matrices of linear maps only.

    rate:         peak learning rate, reached linearly after warm_up steps
    betas:        decay of the running means of gradients and of their squares
    eps:          added to the root of the mean square
    weight_decay: of the matrices of linear maps
    clip:         largest norm of the gradient; longer ones are scaled down to it
    warm_up:      steps until the peak rate
    schedule:     after warm-up: linear falls to 0 at the end of the run (by the clock if there is a
                  time_budget), inverse_sqrt falls with the root of the step, constant stays
    """

    rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    weight_decay: float = 0.01
    clip: float = 1.0
    warm_up: int = 400
    schedule: Literal["linear", "inverse_sqrt", "constant"] = "linear"

    def __post_init__(self) -> None:
        for name in ("rate", "eps", "clip"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"{name} must be more than 0, got {value}")
        _at_least("weight_decay", self.weight_decay, 0)
        _at_least("warm_up", self.warm_up, 0)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be at least 0 and less than 1, got {self.betas}")


@dataclass(frozen=True)
class EmaConfig:
    """A running mean of the weights, which is then what is validated and kept.

    decay: share of the old mean that a step keeps, min(decay, (1 + t) / (10 + t)) in step t; no mean if unset
    """

    decay: float | None = None

    def __post_init__(self) -> None:
        if self.decay is not None and not 0 < self.decay < 1:
            raise ValueError(f"decay must be between 0 and 1, got {self.decay}")


@dataclass(frozen=True)
class ValidationConfig:
    """BLEU on the validation set, which decides what is kept.

    every:         steps between validations; once per epoch if neither this nor every_minutes is set
    every_minutes: minutes between validations, instead of every
    sentences:     number of sentences at the start of the validation set to use; all if unset
    patience:      stop after this number of validations in a row without a better BLEU; never if unset
    keep:          best checkpoints to keep, and to average at the end
    batch:         sentences translated at a time
    tokenize:      sacreBLEU's tokenizer; auto depends on the target language, as in evaluate
    decoding:      how to translate; the network's default if unset
    """

    every: int | None = None
    every_minutes: float | None = None
    sentences: int | None = None
    patience: int | None = None
    keep: int = 5
    batch: int = 64
    tokenize: Literal["auto", "13a", "zh", "ja-mecab", "ko-mecab", "intl", "char", "none"] = "auto"
    decoding: DecodingDefaults | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.every_minutes is not None:
            raise ValueError("every and every_minutes must not be given together, got both")
        for name in ("every", "sentences", "patience", "keep", "batch"):
            if (value := getattr(self, name)) is not None:
                _at_least(name, value, 1)
        if self.every_minutes is not None and not self.every_minutes > 0:
            raise ValueError(f"every_minutes must be more than 0, got {self.every_minutes}")


@dataclass(frozen=True)
class FaultsConfig:
    """Which steps are skipped, and when there were too many.

    A step leaves the weights as they are if a gradient or the loss is not finite, if the model can produce
    none of its targets, or if the loss is a spike. The median is that of the last 100 steps without a spike,
    once there are 20, and at least 1 nat. Bad steps are counted in the log (`bad_steps`) and the sentences of
    the first 20 are kept in `faults/`.

    spike_factor:  skip a step whose loss per token exceeds this multiple of the recent median; inf: never
    max_bad_steps: end the run after this number of skipped steps in a row
    """

    spike_factor: float = 5.0
    max_bad_steps: int = 20

    def __post_init__(self) -> None:
        if not self.spike_factor > 1:
            raise ValueError(f"spike_factor must be more than 1, got {self.spike_factor}")
        _at_least("max_bad_steps", self.max_bad_steps, 1)


@dataclass(frozen=True)
class DistributedConfig:
    """How processes that torchrun started work together.

    A batch is one of all processes, each of which takes its share of the sentences: so their number changes
    nothing but rounding, and what dropout draws.

    exchange:        ddp: each process has the whole network; fsdp: each has a part of it, for large ones
    timeout_minutes: how long to wait for a process that does not answer before giving up
    """

    exchange: Literal["ddp", "fsdp"] = "ddp"
    timeout_minutes: float = 10.0

    def __post_init__(self) -> None:
        if not self.timeout_minutes > 0:
            raise ValueError(f"timeout_minutes must be more than 0, got {self.timeout_minutes}")


@dataclass(frozen=True)
class CardConfig(Card):
    """Contents of the model card.

    source_language: code of the source language; that of the prepared data if empty
    target_language: code of the target language; that of the prepared data if empty
    """

    source_language: str = ""
    target_language: str = ""


@dataclass(frozen=True)
class TrainConfig:
    """A training run.

    The same settings give the same losses, with or without interruptions, unless there is a time budget:
    then schedules follow the clock.

    data:        directory written by `pcfgnat prepare`
    output:      directory of the run; an interrupted run in it is resumed
    network:     the network and its architecture
    objective:   what is minimised, and its settings
    batches:     size of a step
    seed:        of weights, order of sentences, dropout and glancing
    steps:       number of steps after which to end; set at least one of steps, epochs and time_budget
    epochs:      number of passes over the training text after which to end
    time_budget: minutes after which to end, with validation but without that of the final average
    targets:     of sources that have several: all takes every pair by itself, mixture one target of each
                 source in each epoch, log_sum all of them as alternatives (likelihood only)
    warm_start:  checkpoint to take every weight from that fits; random weights if unset
    optimiser:   AdamW and its schedule
    ema:         running mean of the weights
    validation:  when to validate, and what to keep
    faults:      which steps are skipped
    distributed: several processes
    precision:   of matrix products in training; weights are always float32
    device:      where to train; auto is cuda if available and cpu otherwise
    threads:     CPU threads; as torch chooses if unset
    log_every:   steps per row of the log, which has their means
    save_every_minutes: minutes between saves of the run's state, from which it is resumed
    curves:      draw loss, BLEU and learning rate as curves.png
    tensorboard: write logs for TensorBoard
    card:        contents of the model card
    """

    data: Path
    output: Path
    network: Annotated[dict[str, Any], ByName({name: kind for name, (_, kind) in NETWORKS.items()})]
    objective: Annotated[dict[str, Any], ByName(OBJECTIVES)]
    batches: BatchConfig
    seed: int = 1
    steps: int | None = None
    epochs: float | None = None
    time_budget: float | None = None
    targets: Literal["all", "mixture", "log_sum"] = "all"
    warm_start: Path | None = None
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    ema: EmaConfig = field(default_factory=EmaConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    faults: FaultsConfig = field(default_factory=FaultsConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    precision: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = None
    log_every: int = 50
    save_every_minutes: float = 10.0
    curves: bool = True
    tensorboard: bool = True
    card: CardConfig = field(default_factory=CardConfig)

    def __post_init__(self) -> None:
        if self.steps is None and self.epochs is None and self.time_budget is None:
            raise ValueError("steps, epochs or time_budget must be given, got none")
        for name in ("steps", "epochs", "time_budget", "save_every_minutes"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"{name} must be more than 0, got {value}")
        if not 0 <= self.seed <= MAX_SEED:
            raise ValueError(f"seed must be in 0 … {MAX_SEED}, got {self.seed}")
        for name in ("threads", "log_every"):
            if (value := getattr(self, name)) is not None:
                _at_least(name, value, 1)

    @property
    def network_name(self) -> str:
        """The network's name in `NETWORKS`."""
        return _known("network", self.network, NETWORKS)

    def network_config(self) -> Any:
        """Return the architecture."""
        return from_dict(NETWORKS[self.network_name][1], _without_name(self.network), "network")

    @property
    def objective_name(self) -> str:
        """The objective's name in `OBJECTIVES`."""
        return _known("objective", self.objective, OBJECTIVES)

    def objective_value(self) -> Objective:
        """Return what is minimised."""
        return from_dict(OBJECTIVES[self.objective_name], _without_name(self.objective), "objective")

    def resolved(self) -> "TrainConfig":
        """Return the same with every setting of network and objective spelled out."""
        network = {"name": self.network_name, **to_dict(self.network_config())}
        objective = {"name": self.objective_name, **to_dict(self.objective_value())}
        return replace(self, network=network, objective=objective)


def check_same_run(config: TrainConfig, path: Path) -> None:
    """Raise an error if a run that was started with the settings in `path` cannot resume with other ones."""
    before = to_dict(load_config(TrainConfig, path).resolved())
    changes = differing_keys(before, to_dict(config)).items()
    for key, (was, now) in sorted(changes, key=lambda change: not change[0].endswith(".name")):
        if key not in MAY_CHANGE and not key.startswith(MAY_CHANGE_TABLES):
            change = f"{key} changed from {was!r} to {now!r}"
            raise TrainingError(f"cannot resume {path.parent}: {change}; use another output to start over")


def _known(table: str, settings: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    name = settings.get("name")
    if name not in known:
        raise ConfigError(f"{table}.name must be one of {', '.join(known)}, got {name!r}")
    return str(name)


def _without_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "name"}


def _at_least(name: str, value: int | float, low: int) -> None:
    if not value >= low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
