"""Networks whose weights are spread over the processes (torch's FSDP2)."""

import copy
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from pcfgnat.checkpoints.weights import load_weights, own_weights
from pcfgnat.networks import Batch, Network
from pcfgnat.nn.attention import SelfAttention
from pcfgnat.nn.transformer import FeedForward
from pcfgnat.objectives import Loss, Step
from pcfgnat.training.processes.exchange import Exchange

# What is gathered only while it works. Attention to the encoder is not: its keys are computed outside of its
# `forward`, and so it stays with the embeddings in the part that is gathered for the whole step.
UNITS = (SelfAttention, FeedForward)


class Sharded(Exchange):
    """Every process has a part of each weight, of its gradient and of the optimiser's memory."""

    def __init__(self, step: Step) -> None:
        # Units return views, of which nothing is overwritten: sub-layers are added out of place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        self._empty = copy.deepcopy(step.network).cpu()
        self._device = step.network.device
        self._step = step
        _shard_units(step)
        fully_shard(step)

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch."""
        loss: Loss = self._step(batch, progress)
        return loss

    def piece(self, last: bool) -> AbstractContextManager[object]:
        """Exchange gradients once a step."""
        assert isinstance(self._step, FSDPModule)
        self._step.set_requires_gradient_sync(last)
        return nullcontext()

    def spread(self, network: Network) -> None:
        """Leave each process a part of every weight."""
        _shard_units(network)
        fully_shard(network)

    def in_one_piece(self, network: Network) -> Network:
        """Return a copy, which takes its memory until it is let go."""
        load_weights(self._empty, self.whole(own_weights(network)), "the run")
        return copy.deepcopy(self._empty).to(self._device)

    def whole(self, tensors: Mapping[str, Tensor], keep: bool = True) -> dict[str, Tensor]:
        """Gather one tensor after the other, so that those who keep nothing never hold more than one."""
        found = {}
        for name, tensor in tensors.items():
            full = tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor
            if keep:
                found[name] = full
        return found

    def placed_like(self, value: Tensor, like: Tensor) -> Tensor:
        """Keep this process's part."""
        value = value.to(like.device, copy=True)
        if not isinstance(like, DTensor) or value.shape != like.shape:
            return value
        return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)


def _shard_units(module: nn.Module) -> None:
    for unit in module.modules():
        if isinstance(unit, UNITS):
            fully_shard(unit)
