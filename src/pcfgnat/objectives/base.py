"""What training minimises: a value of its own, apart from the network whose weights it moves."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcfgnat.networks import Batch, Network


class ObjectiveError(ValueError):
    """An objective and a network that do not fit together."""


@dataclass(frozen=True)
class Counts:
    """How many sentences and target tokens count in a loss, on its device.

    skipped: sentences that were left out, because the network cannot produce their target
    """

    sentences: Int[Tensor, ""]
    tokens: Int[Tensor, ""]
    skipped: Int[Tensor, ""]


@dataclass(frozen=True, eq=False)
class Loss:
    """What is minimised, and what it was computed from, on the network's device.

    value:    the mean of the objective over sentences or tokens, as the objective says
    counts:   how much was learned from
    measured: further figures to report, by name

    The first one that asks for a plain number waits for the device; all of them are then read at once.
    """

    value: Float[Tensor, ""]
    counts: Counts
    measured: dict[str, Float[Tensor, ""]] = field(default_factory=dict)

    @property
    def sentences(self) -> int:
        """Return how many sentences count in the value."""
        return int(self._numbers[0])

    @property
    def tokens(self) -> int:
        """Return how many target tokens count in the value."""
        return int(self._numbers[1])

    @property
    def skipped(self) -> int:
        """Return how many sentences were left out."""
        return int(self._numbers[2])

    @property
    def mean(self) -> float:
        """Return the value."""
        return self._numbers[3]

    @property
    def metrics(self) -> dict[str, float]:
        """Return the further figures."""
        return dict(zip(self.measured, self._numbers[4:], strict=True))

    @cached_property
    def _numbers(self) -> list[float]:
        counts = (self.counts.sentences, self.counts.tokens, self.counts.skipped)
        parts = [part.detach().double() for part in (*counts, self.value, *self.measured.values())]
        numbers: list[float] = torch.stack(parts).tolist()
        return numbers


class Objective(ABC):
    """A frozen value with its own settings; it has no weights.

    weight:        what `Loss.value` is a mean over, and so what losses of several batches are weighted by
    sums_targets:  whether it can learn from several targets of a source together, as `Batch.groups` has them
    """

    weight: ClassVar[Literal["sentences", "tokens"]]
    sums_targets: ClassVar[bool] = False

    @abstractmethod
    def check(self, network: Network) -> None:
        """Raise an `ObjectiveError` unless the network can be trained with this."""

    @abstractmethod
    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch; `progress` goes from 0 to 1 through training."""


class Step(nn.Module):
    """A network and its objective as one module: what several processes wrap to exchange gradients."""

    def __init__(self, network: Network, objective: Objective) -> None:
        super().__init__()
        objective.check(network)
        self.network = network
        self.objective = objective

    def forward(self, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch."""
        return self.objective.loss(self.network, batch, progress)
