"""Autoregressive networks on the kernels: the encoder runs once, the decoder reads several tokens a call."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from pcfgnat.runtimes.base import Reading, Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.base import Encoded, NativeRuntime, Spans, spans_of
from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.looking import columns_of
from pcfgnat.runtimes.native.kernels.network import emit
from pcfgnat.runtimes.native.kernels.reading import read_tokens, remembered, write_greedily
from pcfgnat.runtimes.native.output import NO_TYPES, SPECIAL_COLUMNS
from pcfgnat.runtimes.output import SPECIAL, Best
from pcfgnat.runtimes.stepper import FIRST_CAPACITY, ArrayStepper, with_end
from pcfgnat.text.special import SPECIAL_TOKENS

EVERYTHING = np.zeros((0, 0, 0), np.bool_)  # nothing is hidden


class TokenReader:
    """The decoder of an autoregressive network, or of a hybrid, whose names have a prefix."""

    def __init__(self, runtime: NativeRuntime, positions: str, limit: int, prefix: str) -> None:
        size, layers, weights = runtime.size, runtime.size.layers_reader, runtime.weights
        self.output, self.limit, self.width = runtime.output, limit, size.width
        self.columns = 2 * size.width * layers
        self.operations, self.model = runtime.operations, runtime.model
        runtime.enter(
            (m.READER, runtime.stack(layers, names.decoder_linears(layers), names.decoder_norms, prefix)),
            (m.READER_KEYS_VALUES, weights.weights([prefix + names.KEYS_VALUES], layers)),
            (m.READER_POSITIONS, runtime.table(positions, limit, size.width)),
        )

    def memory(self, encoded: Encoded) -> Float32[np.ndarray, "source_rows K"]:
        """Return keys and values of encoded sources, with room behind them."""
        found: np.ndarray = remembered(self.operations, self.model, encoded.bytes, encoded.scales)
        return found

    def write_greedily(
        self, encoded: Encoded, limits: Sequence[int], most_types: int
    ) -> list[tuple[tuple[int, ...], float]]:
        """Return the most probable token after the other of each source, and the log-probability of all."""
        batch = len(encoded.spans)
        tokens, lengths = np.full((batch, max(limits)), SPECIAL_TOKENS.bos), np.empty(batch, np.int64)
        scores, bounds = np.empty(batch), np.empty(batch + 1, np.int64)
        write_greedily(
            self.operations, self.model, encoded.bytes, encoded.scales, encoded.ids, encoded.spans,
            np.array(limits), np.empty(most_types, np.int64), bounds, tokens, lengths, scores,
        )  # fmt: skip
        rows = zip(tokens.tolist(), lengths.tolist(), scores.tolist(), strict=True)
        return [(tuple(ids[:length]), score) for ids, length, score in rows]


class NativeSteps(NativeRuntime):
    """An exported autoregressive network."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        self.reader = TokenReader(self, "canvas_positions", self.metadata.shape.max_canvas_length, "")

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.reader.limit + 1

    def start(self, sources: Sources) -> "NativeStepper":
        """Encode sources."""
        self.check(sources)
        return NativeStepper(self.reader, self.encode(sources), self.token_choices(sources))

    def write_greedily(self, sources: Sources, limits: Sequence[int]) -> list[tuple[tuple[int, ...], float]]:
        """Return the most probable token after the other of each source, and the log-probability of all."""
        self.check(sources)
        encoded = self.encode(sources)
        return self.reader.write_greedily(encoded, limits, self.most_types(encoded))


class States(NamedTuple):
    """States of tokens, one under the other, as floats and as bytes with scales."""

    floats: Float32[np.ndarray, "rows D"]
    bytes: UInt8[np.ndarray, "rows D"]
    scales: Float32[np.ndarray, "rows"]

    @classmethod
    def empty(cls, rows: int, width: int) -> "States":
        """Return room for so many."""
        floats, bytes_ = np.empty((rows, width), np.float32), np.empty((rows, width), np.uint8)
        return cls(floats, bytes_, np.empty(rows, np.float32))


class NativeStepper(ArrayStepper):
    """Keys and values of encoded sources too, one under the other; `spans` has where each sentence's are."""

    def __init__(
        self, reader: TokenReader, encoded: Encoded, types: list[Int64[np.ndarray, "_"]] | None
    ) -> None:
        past = np.zeros((len(encoded.spans), FIRST_CAPACITY, reader.columns), dtype=np.float32)
        super().__init__(reader.output, reader.limit, past, types)
        self._reader, self._memory, self._spans = reader, reader.memory(encoded), encoded.spans

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only."""
        super().select(rows)
        self._spans = self._spans[rows]

    def read(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        following: Int64[np.ndarray, "B Q"],
        kept: Int64[np.ndarray, "B"],
    ) -> Reading:
        """Read Q consecutive tokens of each sentence, behind the first `kept[b]` that it has read."""
        count = tokens.shape[1]
        positions = np.minimum(kept[:, None] + np.arange(count), self._limit - 1)  # of padding
        self._make_room(int(kept.max()) + count)
        self._used = int(kept.max())
        states = self._run(tokens, positions, kept, None)
        types = [NO_TYPES] * len(tokens) if self._types is None else self._types
        bounds = np.cumsum([0, *map(len, types)])
        spans, rows = spans_of([count] * len(tokens)), tokens.size
        score, token = np.empty(rows, np.float32), np.empty(rows, np.int64)
        special = np.empty((rows, SPECIAL_COLUMNS), np.float32)
        output = self._reader.output
        emit(
            output.operations, output.all_or_some(types[0]), states.bytes, states.scales, spans,
            np.concatenate(types), bounds, score, token, special,
        )  # fmt: skip
        best, log_probs, end = with_end(Best(score, token, special[:, :SPECIAL]))
        ids, places = np.unique(following, return_inverse=True)
        columns = columns_of(output.operations, output.model, ids, states.bytes, states.scales, special)
        given = columns[np.arange(rows), places.ravel()]
        return Reading(*(array.reshape(tokens.shape) for array in (best, log_probs, given, end)))

    def _decoded(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        positions: Int64[np.ndarray, "B Q"],
        visible: Bool[np.ndarray, "B Q T"],
        ends: Int64[np.ndarray, "B"],
    ) -> Float32[np.ndarray, "B Q D"]:
        """Run the decoder, and keep keys and values of the tokens behind `ends[b]` earlier ones."""
        self._make_room(int(ends.max()) + tokens.shape[1])
        states = self._run(tokens, positions, ends, np.ascontiguousarray(visible))
        return states.floats.reshape(*tokens.shape, -1)

    def _run(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        positions: Int64[np.ndarray, "B Q"],
        kept: Int64[np.ndarray, "B"],
        visible: Bool[np.ndarray, "B Q T"] | None,
    ) -> "States":
        batch, count = tokens.shape
        starts = np.arange(batch) * self._past.shape[1]
        past_spans: Spans = np.stack([starts, starts + kept + count], axis=1)
        states = States.empty(batch * count, self._reader.width)
        read_tokens(
            self._reader.operations,
            self._reader.model,
            np.ascontiguousarray(tokens).reshape(-1),
            np.ascontiguousarray(positions).reshape(-1),
            spans_of([count] * batch),
            self._past.reshape(-1, self._reader.columns),
            past_spans,
            int(visible is None),
            EVERYTHING if visible is None else visible,
            self._memory,
            np.ascontiguousarray(self._spans),
            *states,
        )
        return states
