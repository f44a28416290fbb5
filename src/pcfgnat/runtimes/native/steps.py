"""Autoregressive networks on the kernels: the encoder runs once, the decoder reads several tokens a call."""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.base import Encoded, NativeRuntime, bounds_of
from pcfgnat.runtimes.native.kernels.network import keys_and_values, read_tokens
from pcfgnat.runtimes.stepper import FIRST_CAPACITY, ArrayStepper


class TokenReader:
    """The decoder of an autoregressive network, or of a hybrid, whose names have a prefix."""

    def __init__(
        self, runtime: NativeRuntime, positions: Float32[np.ndarray, "limit D"], prefix: str
    ) -> None:
        size, weights, layers = runtime.size, runtime.weights, runtime.size.layers_reader
        self.output, self.limit = runtime.output, len(positions)
        self.columns = 2 * size.width * layers
        self._keys_values = weights.linears([prefix + names.KEYS_VALUES], layers)
        self._address = weights.address
        self._decoder = (
            runtime.output.unsigned,
            runtime.output.scales,
            runtime.factor,
            positions,
            *size.kind,
            weights.address,
            weights.linears([prefix + name for name in names.decoder_linears(layers)], layers),
            weights.norms([prefix + name for name in names.decoder_norms(layers, size.pre_norm)]),
            layers,
        )

    def memory(self, encoded: Encoded) -> Float32[np.ndarray, "rows K"]:
        """Return keys and values of encoded sources."""
        found: np.ndarray = keys_and_values(encoded.states, self._address, self._keys_values, 0)
        return found

    def read(
        self,
        ids: Int64[np.ndarray, "rows"],
        places: Int64[np.ndarray, "rows"],
        bounds: Int64[np.ndarray, "B_and_one"],
        past: Float32[np.ndarray, "B T K"],
        kept: Int64[np.ndarray, "B"],
        visible: Bool[np.ndarray, "B Q S"],
        memory: Float32[np.ndarray, "source_rows K"],
        memory_bounds: Int64[np.ndarray, "B_and_one"],
    ) -> Float32[np.ndarray, "rows D"]:
        """Return the states of new tokens; see the kernel."""
        source = (memory, memory_bounds)
        states: np.ndarray = read_tokens(ids, places, bounds, past, kept, visible, *source, *self._decoder)
        return states


class NativeSteps(NativeRuntime):
    """An exported autoregressive network."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        positions = self.table("canvas_positions", self.metadata.shape.max_canvas_length, self.size.width)
        self.reader = TokenReader(self, positions, "")

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.reader.limit + 1

    def start(self, sources: Sources) -> "NativeStepper":
        """Encode sources."""
        self.check(sources)
        return NativeStepper(self.reader, self.encode(sources), self.token_choices(sources))


class NativeStepper(ArrayStepper):
    """Keys and values of encoded sources too, one under the other."""

    def __init__(
        self, reader: TokenReader, encoded: Encoded, types: list[Int64[np.ndarray, "_"]] | None
    ) -> None:
        batch = len(encoded.bounds) - 1
        past = np.zeros((batch, FIRST_CAPACITY, reader.columns), dtype=np.float32)
        super().__init__(reader.output, reader.limit, past, types)
        self._reader, self._memory, self._bounds = reader, reader.memory(encoded), encoded.bounds

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only."""
        super().select(rows)
        parts = [self._memory[self._bounds[row] : self._bounds[row + 1]] for row in rows.tolist()]
        self._bounds = bounds_of([len(part) for part in parts])
        self._memory = np.concatenate([self._memory[:0], *parts])

    def _decoded(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        positions: Int64[np.ndarray, "B Q"],
        visible: Bool[np.ndarray, "B Q T"],
        ends: Int64[np.ndarray, "B"],
    ) -> Float32[np.ndarray, "B Q D"]:
        """Run the decoder, and keep keys and values of the tokens behind `ends[b]` earlier ones."""
        batch, count = tokens.shape
        self._make_room(int(ends.max()) + count)
        bounds = np.arange(batch + 1) * count
        states = self._reader.read(
            tokens.reshape(-1),
            positions.reshape(-1),
            bounds,
            self._past,
            ends,
            _by_end(visible, ends, self._used),
            self._memory,
            self._bounds,
        )
        return states.reshape(batch, count, -1)


def _by_end(
    visible: Bool[np.ndarray, "B Q T"], ends: Int64[np.ndarray, "B"], used: int
) -> Bool[np.ndarray, "B Q T"]:
    """Move the columns of new tokens from behind all earlier ones to behind each sentence's own."""
    if (ends == used).all():
        return visible
    count = visible.shape[1]
    moved = np.zeros_like(visible)
    moved[:, :, :used] = visible[:, :, :used]
    for b, end in enumerate(ends.tolist()):
        moved[b, :, end : end + count] = visible[b, :, used:]
    return moved
