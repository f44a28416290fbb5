"""Weights as kernels read them: packed once when a model is loaded, in one piece of memory."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import safetensors
from jaxtyping import Float32, Int64
from safetensors.numpy import load_file

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.native.kernels.products import MIDDLE, column_entries, pack
from pcfgnat.runtimes.native.names import NORM, OFFSET, SCALE
from pcfgnat.runtimes.native.size import Size

PADDING = 32  # columns are padded to a multiple of this, whatever the processor
ALIGNMENT = 64


class PackedWeights:
    """All weights of a model.

    address: where products begin; what `linears` returns counts from there
    """

    def __init__(self, path: Path, size: Size) -> None:
        self._path, self._size, self._tensors = path, size, _loaded(path)
        products = [name for name, tensor in self._tensors.items() if tensor.ndim == 2]
        parts: list[np.ndarray] = []
        self._rows: dict[str, tuple[int, int, int, int]] = {}
        offset = 0
        for name in products:
            panels, entries, shape = self._packed(name)
            self._rows[name] = (offset, offset + _aligned(panels.nbytes), *shape)
            parts += [panels.view(np.uint8), entries.view(np.uint8)]
            offset += _aligned(panels.nbytes) + _aligned(entries.nbytes)
        self._memory = _together(parts, offset)
        self.address = int(self._memory.ctypes.data)

    def linears(self, wanted: Iterable[str], layers: int, depth: int = 0) -> Int64[np.ndarray, "n 4"]:
        """Return where products are: panels, entries of columns, inner size, padded columns.

        Kernels read memory by these numbers, so a product must have the size that the network gives it.
        """
        rows = []
        for name in wanted:
            found, expected = self._tensors[self._known(name)].shape, self._size.columns(name, layers, depth)
            if found != expected:
                raise CheckpointError(f"{self._path}: {name} must have shape {expected}, got {found}")
            rows.append(self._rows[name])
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    def norms(self, wanted: Iterable[str]) -> Float32[np.ndarray, "n 2 D"]:
        """Return scales and offsets of norms."""
        rows = []
        for name in wanted:
            pair = [self._tensors[self._known(name + part)] for part in NORM]
            for part, found in zip(NORM, pair, strict=True):
                if found.shape != (self._size.width,):
                    expected = f"({self._size.width},)"
                    raise CheckpointError(
                        f"{self._path}: {name + part} must have shape {expected}, got {found.shape}"
                    )
            rows.append(pair)
        return np.array(rows, dtype=np.float32).reshape(-1, 2, self._size.width)

    def _known(self, name: str) -> str:
        if name not in self._tensors:
            raise CheckpointError(f"{self._path} must have {name}")
        return name

    def _packed(self, name: str) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
        values = self._tensors[name].T
        columns, inner = values.shape
        if values.dtype != np.int8 or inner % 4:
            raise CheckpointError(
                f"{self._path}: {name} must be int8 with a multiple of 4 rows, got {values.dtype}, {inner}"
            )
        vectors = []
        for part in (SCALE, OFFSET):
            vector = self._tensors[self._known(name + part)]
            if vector.shape != (columns,) or vector.dtype != np.float32:
                raise CheckpointError(
                    f"{self._path}: {name + part} must be {columns} floats, got {vector.dtype} {vector.shape}"
                )
            vectors.append(vector)
        more = -columns % PADDING
        padded = np.pad(values, ((0, more), (0, 0)))
        begin = -MIDDLE * padded.astype(np.int32).sum(1)
        scale, offset = (np.pad(vector, (0, more)) for vector in vectors)
        return pack(padded), column_entries(begin, scale, offset), (inner, columns + more)


def _loaded(path: Path) -> Mapping[str, np.ndarray]:
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a file of weights, or is damaged: {error}") from error


def _aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _together(parts: Iterable[np.ndarray], size: int) -> np.ndarray:
    """Copy parts into one piece of memory, each at an aligned place."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    memory = room[start : start + size]
    offset = 0
    for part in parts:
        memory[offset : offset + part.nbytes] = part
        offset += _aligned(part.nbytes)
    return memory
