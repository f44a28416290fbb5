"""Models whose weights are spread over the processes (torch's FSDP2)."""

import copy
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from pcfgnat.checkpoints.checkpoint import load_weights, own_weights
from pcfgnat.networks import Batch, Loss, Model
from pcfgnat.nn.attention import SelfAttention
from pcfgnat.nn.transformer import FeedForward
from pcfgnat.training.processes.exchange import Engine

# What is gathered only while it works. Attention to the encoder is not: its keys are computed outside of its
# `forward`, and so it stays with the embeddings in the part that is gathered for the whole step.
UNITS = (SelfAttention, FeedForward)


class Sharded(Engine):
    """Every process has a part of each weight, of its gradient and of the optimiser's memory."""

    def __init__(self, model: Model) -> None:
        # Units return views, of which nothing is overwritten: sub-layers are added out of place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
        self._empty = copy.deepcopy(model).cpu()
        self._device = next(model.parameters()).device
        self._model = model
        self.spread(model)
        register_fsdp_forward_method(model, "loss")

    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the model's loss."""
        return self._model.loss(batch, progress)

    def piece(self, last: bool) -> AbstractContextManager[object]:
        """Exchange gradients once a step."""
        assert isinstance(self._model, FSDPModule)
        self._model.set_requires_gradient_sync(last)
        return nullcontext()

    def spread(self, model: Model) -> None:
        """Leave each process a part of every weight."""
        for module in model.modules():
            if isinstance(module, UNITS):
                fully_shard(module)
        fully_shard(model)

    def in_one_piece(self, model: Model) -> Model:
        """Return a copy, which takes its memory until it is let go."""
        load_weights(self._empty, self.whole(own_weights(model)), "the run")
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
