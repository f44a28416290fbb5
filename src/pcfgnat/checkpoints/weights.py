"""Weights as tensors: every one once, by name, from and to files of safetensors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.networks import Network

MAX_HEADER_BYTES = 1 << 23


def own_weights(network: Network) -> dict[str, Tensor]:
    """Return every parameter and buffer of a model once, under its first name if it has several."""
    parameters = dict(network.named_parameters())
    tied = {name for name, _ in network.named_parameters(remove_duplicate=False)} - set(parameters)
    state = network.state_dict()  # buffers that are computed are not in it
    return {name: tensor for name, tensor in state.items() if name not in tied}


def load_weights(network: Network, weights: Mapping[str, Tensor], origin: str) -> None:
    """Copy all weights into a model; `origin` is where they are from, to be named in an error."""
    own = own_weights(network)
    check_same_shapes(shapes(own), shapes(weights), origin)
    with torch.no_grad():
        for name, tensor in own.items():
            if (found := weights[name]).is_floating_point() != tensor.is_floating_point():
                raise CheckpointError(f"{origin}: {name} must be like {tensor.dtype}, got {found.dtype}")
            tensor.copy_(found)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read names and shapes of the tensors in a file, and nothing else."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file, after a look at the size of its header."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
        limit = min(MAX_HEADER_BYTES, max(path.stat().st_size - 8, 0))
        if not 0 < size <= limit:
            found = f"its header must have 1 … {limit} bytes, got {size}"
            raise CheckpointError(f"{path} is damaged, or no safetensors file: {found}")
        with safetensors.safe_open(path, framework="pt") as tensors:
            yield tensors
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is damaged, or no safetensors file: {error}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor, by name."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def check_same_shapes(
    own: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], origin: str
) -> None:
    """Raise an error unless names and shapes of weights are a network's own."""
    missing, unknown = sorted(own.keys() - found.keys()), sorted(found.keys() - own.keys())
    if missing:
        raise CheckpointError(f"{origin} must have {missing[0]}, one of {len(own)} weights, but lacks it")
    if unknown:
        raise CheckpointError(f"{origin} has {unknown[0]}, which is none of the model's {len(own)} weights")
    for name, shape in own.items():
        if found[name] != shape:
            raise CheckpointError(f"{origin}: {name} must have shape {shape}, got {found[name]}")
