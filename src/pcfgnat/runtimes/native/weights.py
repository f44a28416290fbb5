"""Weights as kernels read them: packed once when a model is loaded, in one piece of memory."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import safetensors
from jaxtyping import Float32, Int8, Int32
from safetensors.numpy import load_file

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.native.kernels.memory import ALIGNMENT
from pcfgnat.runtimes.native.kernels.products import column_entries, pack
from pcfgnat.runtimes.native.kernels.row_code import HIDDEN, MIDDLE
from pcfgnat.runtimes.native.names import NORM, OFFSET, SCALE
from pcfgnat.runtimes.native.size import Size

PADDING = 32  # columns are padded to a multiple of this, whatever the processor


class PackedWeights:
    """All weights of a model; addresses that are returned are good as long as it lives."""

    def __init__(self, path: Path, size: Size) -> None:
        self._path, self._size, self._tensors = path, size, _loaded(path)
        self._kept: list[np.ndarray] = []
        self._packed: dict[str, Sequence[int]] = {}

    def weights(self, wanted: Iterable[str], layers: int, depth: int = 0) -> int:
        """Return the address of what describes some products, one after the other.

        Kernels read memory by these numbers, so a product must have the size that the network gives it.
        """
        rows = []
        for name in wanted:
            found, expected = self._tensors[self._known(name)].shape, self._size.columns(name, layers, depth)
            if found != expected:
                raise CheckpointError(f"{self._path}: {name} must have shape {expected}, got {found}")
            if name not in self._packed:
                self._packed[name] = self._described(name)
            rows.append(self._packed[name])
        return self.address(np.array(rows, dtype=np.int64))

    def norms(self, wanted: Iterable[str]) -> int:
        """Return the address of scales and offsets of norms, one after the other."""
        rows, expected = [], (self._size.width,)
        for name in wanted:
            for part in NORM:
                found = self._tensors[self._known(name + part)]
                if found.shape != expected:
                    raise CheckpointError(
                        f"{self._path}: {name + part} must have shape {expected}, got {found.shape}"
                    )
                rows.append(found)
        return self.address(np.array(rows, dtype=np.float32))

    def address(self, array: np.ndarray) -> int:
        """Keep an array, and return where it lies, aligned."""
        kept = aligned(array)
        self._kept.append(kept)
        return int(kept.ctypes.data)

    def described(self, values: Int8[np.ndarray, "columns inner"], entries: Float32[np.ndarray, "_"]) -> int:
        """Return the address of what describes a weight with these entries of its columns."""
        columns, inner = values.shape
        numbers = (self.address(pack(values)), self.address(entries), inner, columns)
        return self.address(np.array(numbers, dtype=np.int64))

    def _known(self, name: str) -> str:
        if name not in self._tensors:
            raise CheckpointError(f"{self._path} must have {name}")
        return name

    def _described(self, name: str) -> Sequence[int]:
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
        scale, offset = (np.pad(vector, (0, more)) for vector in vectors)
        entries = column_entries(sums_begin(padded), scale, offset)
        return self.address(pack(padded)), self.address(entries), inner, columns + more


class TokenColumns:
    """The output matrix: rows of all tokens, and what belongs to each as a column of a product."""

    def __init__(
        self, weights: PackedWeights, tokens: Int8[np.ndarray, "V D"], scales: Float32[np.ndarray, "V"]
    ) -> None:
        self._weights, self._tokens, self._scales = weights, tokens, scales
        self._begin = sums_begin(tokens)
        numbers = np.zeros((len(tokens), 3), np.float32)
        numbers[:, 0], numbers[:, 1] = self._begin.view(np.float32), scales
        self.rows, self.entries = weights.address(tokens), weights.address(numbers)

    def packed(self) -> int:
        """Return the address of all tokens as a weight; columns beyond them are never the best."""
        more = -len(self._tokens) % PADDING
        offset = np.pad(np.zeros_like(self._scales), (0, more), constant_values=HIDDEN)
        begin, scale = np.pad(self._begin, (0, more)), np.pad(self._scales, (0, more))
        return self._weights.described(
            np.pad(self._tokens, ((0, more), (0, 0))), column_entries(begin, scale, offset)
        )


def sums_begin(columns: Int8[np.ndarray, "columns inner"]) -> Int32[np.ndarray, "columns"]:
    """Return where sums of products begin, so that bytes around 128 count as signed ones."""
    begin: np.ndarray = -MIDDLE * columns.sum(1, dtype=np.int32)
    return begin


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy at an aligned place."""
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def _loaded(path: Path) -> Mapping[str, np.ndarray]:
    try:
        return load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a file of weights, or is damaged: {error}") from error
