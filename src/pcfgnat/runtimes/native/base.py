"""What all networks on the kernels share: embeddings, the encoder and the output layer."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from pcfgnat.grammar.tables import thread_pool
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import WEIGHTS, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions, ExportedRuntime
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.network import encode_sources
from pcfgnat.runtimes.native.kernels.operations import operations
from pcfgnat.runtimes.native.output import NativeOutput
from pcfgnat.runtimes.native.size import Size
from pcfgnat.runtimes.native.weights import PackedWeights, TokenColumns
from pcfgnat.text.shortlist import Shortlist

Given = TypeVar("Given")
Found = TypeVar("Found")
Spans = Int64[np.ndarray, "B 2"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Encoder states of some sentences, one under the other, as bytes with a scale for each row."""

    ids: Int64[np.ndarray, "rows"]
    spans: Spans
    bytes: UInt8[np.ndarray, "rows D"]
    scales: Float32[np.ndarray, "rows"]


class NativeRuntime(ExportedRuntime):
    """An exported model on compiled kernels.

    model: addresses and numbers, as kernels know it
    """

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        shape, vocabulary = self.metadata.shape, self.metadata.vocabulary
        self.size = Size.of(exported.metadata)
        self.weights = PackedWeights(exported.path(WEIGHTS), self.size)
        tokens = exported.table("tokens", (vocabulary, shape.width), (np.int8,))
        scales = np.ascontiguousarray(exported.table("token_scales", (vocabulary,)), np.float32)
        self.columns = TokenColumns(self.weights, tokens, scales)
        self._table = operations()
        self.operations = int(self._table.ctypes.data)
        self.model = np.zeros(m.SIZE, np.int64)
        layers = self.size.layers_encoder
        self.enter(
            (m.ENCODER, self.stack(layers, names.encoder_linears(layers), names.encoder_norms)),
            (m.VOCABULARY, vocabulary),
            (m.TOKENS, self.columns.rows),
            (m.ENTRIES, self.columns.entries),
            (m.TOKEN_SCALES, self.weights.address(scales * np.float32(shape.width**0.5))),
            (m.SOURCE_POSITIONS, self.table("source_positions", shape.max_source_length, shape.width)),
        )
        if self.shortlist is None:
            self.enter((m.ALL_TOKENS, self.columns.packed()))
        else:
            self.enter((m.SHORTLIST, _shortlist(self.weights, self.shortlist)))
        self.output = NativeOutput(tokens, scales, self.operations, self.model, self.columns)

    def most_types(self, encoded: Encoded) -> int:
        """Return how many tokens the shortlists of sentences have together at most; 0 without them."""
        if self.shortlist is None:
            return 0
        always, own = len(self.shortlist.frequent) * len(encoded.spans), self.shortlist.counts[encoded.ids]
        return always + int(own.sum())

    def enter(self, *entries: tuple[int, int]) -> None:
        """Enter addresses and numbers into the model."""
        for place, value in entries:
            self.model[place] = value

    def stack(
        self,
        layers: int,
        linears: Iterable[str],
        norms: Callable[[int, bool], Iterable[str]],
        prefix: str = "",
    ) -> int:
        """Return the address of the description of some layers; see `kernels/layers.py`."""
        size = self.size
        numbers = (
            size.width,
            size.ffn,
            size.heads,
            size.pre_norm,
            size.is_gelu,
            layers,
            self.weights.weights([prefix + name for name in linears], layers),
            self.weights.norms([prefix + name for name in norms(layers, size.pre_norm)]),
        )
        return self.weights.address(np.array(numbers, dtype=np.int64))

    def table(self, name: str, rows: int, columns: int, padded: int | None = None) -> int:
        """Return the address of one of the model's tables, as floats, with more columns if wanted."""
        found = self.exported.table(name, (rows, columns))
        wide = np.zeros((rows, padded or columns), np.float32)
        wide[:, :columns] = found
        return self.weights.address(wide)

    def each(self, run: Callable[[Given], Found], given: Sequence[Given]) -> Iterable[Found]:
        """Return what comes of each, in order; several are run at a time, if there are threads for it."""
        if self.threads == 1 or len(given) == 1:
            return map(run, given)
        return thread_pool(self.threads, os.getpid()).map(run, given)

    def encode(self, sources: Sources) -> Encoded:
        """Run the encoder over sentences, one under the other."""
        ids = np.array([token for source in sources for token in source], dtype=np.int64)
        spans = spans_of([len(source) for source in sources])
        bytes_, scales = np.empty((len(ids), self.size.width), np.uint8), np.empty(len(ids), np.float32)
        encode_sources(self.operations, self.model, ids, spans, bytes_, scales)
        return Encoded(ids, spans, bytes_, scales)


def spans_of(lengths: Sequence[int]) -> Spans:
    """Return where rows of sentences begin and end that stand one under the other."""
    if len(lengths) == 1:
        return np.array([[0, lengths[0]]], dtype=np.int64)
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.stack([ends - lengths, ends], axis=1)


def _shortlist(weights: PackedWeights, shortlist: Shortlist) -> int:
    """Return the address of what describes a shortlist; see `kernels/output.py`."""
    always = np.zeros(shortlist.vocabulary, np.uint8)
    always[shortlist.frequent] = 1
    offsets, candidates = shortlist.offsets.astype(np.int64), shortlist.candidates.astype(np.uint32)
    addresses = [weights.address(array) for array in (always, offsets, candidates)]
    return weights.address(np.array([*addresses, len(shortlist.frequent)], dtype=np.int64))
