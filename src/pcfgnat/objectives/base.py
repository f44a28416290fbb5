"""What training minimises: a value of its own, apart from the network whose weights it moves."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from pcfgnat.networks import Batch, Network


class ObjectiveError(ValueError):
    """An objective and a network that do not fit together."""


@dataclass(frozen=True)
class Loss:
    """What is minimised, and what it was computed from.

    value:     the mean of the objective over sentences or tokens, as the objective says
    sentences: how many sentences count in it
    tokens:    how many target tokens count in it
    skipped:   how many sentences were left out, because the network cannot produce their target
    metrics:   further figures to report, by name
    """

    value: Float[Tensor, ""]
    sentences: int
    tokens: int
    skipped: int
    metrics: dict[str, float] = field(default_factory=dict)


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
