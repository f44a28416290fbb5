"""What all networks on the kernels share: embeddings, the encoder and the output layer."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.grammar.tables import thread_pool
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import WEIGHTS, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions, ExportedRuntime
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.kernels.network import encode_sources
from pcfgnat.runtimes.native.output import NativeOutput
from pcfgnat.runtimes.native.size import Size
from pcfgnat.runtimes.native.weights import PackedWeights

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Encoder states of some sentences, one under the other; those of sentence b begin at `bounds[b]`."""

    states: Float32[np.ndarray, "rows D"]
    bounds: Int64[np.ndarray, "B_and_one"]


class NativeRuntime(ExportedRuntime):
    """An exported model on compiled kernels."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        shape, vocabulary = self.metadata.shape, self.metadata.vocabulary
        self.size = Size.of(exported.metadata)
        self.weights = PackedWeights(exported.path(WEIGHTS), self.size)
        tokens = exported.table("tokens", (vocabulary, shape.width), (np.int8,))
        self.output = NativeOutput.of(tokens, exported.table("token_scales", (vocabulary,)))
        self.factor = np.float32(shape.width**0.5)  # of embedded tokens
        layers = self.size.layers_encoder
        self._encoder = (
            self.output.unsigned,
            self.output.scales,
            self.factor,
            self.table("source_positions", shape.max_source_length, shape.width),
            *self.size.kind,
            self.weights.address,
            self.weights.linears(names.encoder_linears(layers), layers),
            self.weights.norms(names.encoder_norms(layers, self.size.pre_norm)),
            layers,
        )

    def table(self, name: str, rows: int, columns: int) -> Float32[np.ndarray, "{rows} {columns}"]:
        """Return one of the model's tables as floats."""
        return np.ascontiguousarray(self.exported.table(name, (rows, columns)), np.float32)

    def each(self, run: Callable[[Given], Found], given: Sequence[Given]) -> Iterable[Found]:
        """Return what comes of each, in order; several are run at a time, if there are threads for it."""
        if self.threads == 1 or len(given) == 1:
            return map(run, given)
        return thread_pool(self.threads, os.getpid()).map(run, given)

    def encode(self, sources: Sources) -> Encoded:
        """Run the encoder over sentences, one under the other."""
        bounds = bounds_of([len(source) for source in sources])
        ids = np.array([token for source in sources for token in source], dtype=np.int64)
        return Encoded(encode_sources(ids, bounds, *self._encoder), bounds)


def bounds_of(lengths: Sequence[int] | Int64[np.ndarray, "B"]) -> Int64[np.ndarray, "B_and_one"]:
    """Return where rows of sentences begin that stand one under the other, and where the last one ends."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds
