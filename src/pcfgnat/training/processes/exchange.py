"""How the gradients of several processes come together.

An exchange leaves the mean over the processes of what each has in its gradients; `Learner` turns that into
the mean over sentences or tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from pcfgnat.networks import Batch, Network
from pcfgnat.objectives import Loss, Step
from pcfgnat.training.processes.workers import Workers


class Exchange(ABC):
    """Computes losses such that gradients are exchanged, and knows where weights are."""

    @abstractmethod
    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch."""

    @abstractmethod
    def piece(self, last: bool) -> AbstractContextManager[object]:
        """In this block one of a step's batches goes forward and back; the last one exchanges gradients."""

    @abstractmethod
    def spread(self, network: Network) -> None:
        """Store another network as the one that learns is stored."""

    @abstractmethod
    def in_one_piece(self, network: Network) -> Network:
        """Return a network that one process can use; all processes must ask for it at the same time."""

    @abstractmethod
    def whole(self, tensors: Mapping[str, Tensor], keep: bool = True) -> dict[str, Tensor]:
        """Put tensors together from their parts; all processes must ask. Nothing if it is not to be kept."""

    @abstractmethod
    def placed_like(self, value: Tensor, like: Tensor) -> Tensor:
        """Return a copy of what belongs to a weight, stored as that weight is."""


class WholeNetworks(Exchange, ABC):
    """Every process has the whole network."""

    def spread(self, network: Network) -> None:
        """Leave it as it is."""

    def in_one_piece(self, network: Network) -> Network:
        """Return the network itself."""
        return network

    def whole(self, tensors: Mapping[str, Tensor], keep: bool = True) -> dict[str, Tensor]:
        """Return them as they are."""
        return dict(tensors) if keep else {}

    def placed_like(self, value: Tensor, like: Tensor) -> Tensor:
        """Return a copy on the same device."""
        return value.to(like.device, copy=True)


class Alone(WholeNetworks):
    """One process: nothing to exchange."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch."""
        loss: Loss = self._step(batch, progress)
        return loss

    def piece(self, last: bool) -> AbstractContextManager[object]:
        """Nothing to do."""
        return nullcontext()


class Replicated(WholeNetworks):
    """Gradients are exchanged during the backward pass (torch's DDP)."""

    def __init__(self, step: Step) -> None:
        self._parallel = DistributedDataParallel(step, gradient_as_bucket_view=True)

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch."""
        loss: Loss = self._parallel(batch, progress)
        return loss

    def piece(self, last: bool) -> AbstractContextManager[object]:
        """Exchange gradients once a step."""
        return nullcontext() if last else self._parallel.no_sync()


def exchange_for(step: Step, kind: str, workers: Workers) -> Exchange:
    """Return what exchanges gradients between the processes; it may change how weights are stored."""
    if workers.size == 1:
        return Alone(step)
    if kind == "ddp":
        return Replicated(step)
    from pcfgnat.training.processes.sharded import Sharded  # takes a second to import

    return Sharded(step)
