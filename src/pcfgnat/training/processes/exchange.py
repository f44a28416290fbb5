"""How the gradients of several processes come together.

An engine leaves the mean over the processes of what each has in its gradients; `Learner` turns that into the
mean over sentences or tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pcfgnat.networks import Batch, Loss, Model
from pcfgnat.training.processes.workers import Workers


class Engine(ABC):
    """Computes losses such that gradients are exchanged, and knows where weights are."""

    @abstractmethod
    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the model's loss."""

    @abstractmethod
    def piece(self, last: bool) -> AbstractContextManager[object]:
        """In this block one of a step's batches goes forward and back; the last one exchanges gradients."""

    @abstractmethod
    def spread(self, model: Model) -> None:
        """Store another model as the one that learns is stored."""

    @abstractmethod
    def in_one_piece(self, model: Model) -> Model:
        """Return a model that can be used by one process; all processes must ask for it at the same time."""

    @abstractmethod
    def whole(self, tensors: Mapping[str, Tensor], keep: bool = True) -> dict[str, Tensor]:
        """Put tensors together from their parts; all processes must ask. Nothing if it is not to be kept."""

    @abstractmethod
    def placed_like(self, value: Tensor, like: Tensor) -> Tensor:
        """Return a copy of what belongs to a weight, stored as that weight is."""


class WholeModels(Engine, ABC):
    """Every process has the whole model."""

    def spread(self, model: Model) -> None:
        """Leave it as it is."""

    def in_one_piece(self, model: Model) -> Model:
        """Return the model itself."""
        return model

    def whole(self, tensors: Mapping[str, Tensor], keep: bool = True) -> dict[str, Tensor]:
        """Return them as they are."""
        return dict(tensors) if keep else {}

    def placed_like(self, value: Tensor, like: Tensor) -> Tensor:
        """Return a copy on the same device."""
        return value.to(like.device, copy=True)


class Alone(WholeModels):
    """One process: nothing to exchange."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the model's loss."""
        return self._model.loss(batch, progress)

    def piece(self, last: bool) -> AbstractContextManager[object]:
        """Nothing to do."""
        return nullcontext()


class Replicated(WholeModels):
    """Gradients are exchanged while the backward pass goes on (torch's DDP)."""

    def __init__(self, model: Model) -> None:
        self._parallel = DistributedDataParallel(_Forward(model), gradient_as_bucket_view=True)

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the model's loss."""
        loss: Loss = self._parallel(batch, progress)
        return loss

    def piece(self, last: bool) -> AbstractContextManager[object]:
        """Exchange gradients once a step."""
        return nullcontext() if last else self._parallel.no_sync()


class _Forward(nn.Module):
    """DDP acts on calls of a module only, so that the loss has to be one."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, progress: float) -> Loss:
        return self.model.loss(batch, progress)


def engine_for(model: Model, kind: str, workers: Workers) -> Engine:
    """Return what exchanges gradients between the processes; it may change how weights are stored."""
    if workers.size == 1:
        return Alone(model)
    if kind == "ddp":
        return Replicated(model)
    from pcfgnat.training.processes.sharded import Sharded  # takes a second to import

    return Sharded(model)
