"""Autoregressive networks on onnxruntime: the encoder runs once, the decoder reads several tokens a call."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64

from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import DECODER, ENCODER, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.onnx.base import OnnxRuntime
from pcfgnat.runtimes.onnx.inputs import Embedded
from pcfgnat.runtimes.onnx.layout import FORBIDDEN, mask
from pcfgnat.runtimes.onnx.sessions import Session
from pcfgnat.runtimes.output import OutputLayer
from pcfgnat.runtimes.stepper import FIRST_CAPACITY, ArrayStepper


@runtime_checkable
class TokenDecoder(Protocol):
    """What reads tokens behind an encoded source."""

    decoder: Session
    embedded: Embedded
    output: OutputLayer


class OnnxSteps(OnnxRuntime):
    """An exported autoregressive network."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        self.encoder = self.session(ENCODER, ("keys_values",))
        self.decoder = self.session(DECODER, ("states", "new"))

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.embedded.target_limit + 1

    def start(self, sources: Sources) -> "OnnxStepper":
        """Encode sources."""
        self.check(sources)
        embedded, lengths = self.embedded.sources(sources)
        longest = int(lengths.max())
        found = self.encoder({"source": embedded, "source_mask": mask(lengths, longest)})["keys_values"]
        return OnnxStepper(
            self, found.reshape(len(sources), longest, -1), lengths, self.token_choices(sources)
        )


class OnnxStepper(ArrayStepper):
    """Keys and values of encoded sources too, by sentence and source token, of all layers side by side."""

    def __init__(
        self,
        runtime: TokenDecoder,
        memory: Float32[np.ndarray, "B N K"],
        lengths: Int64[np.ndarray, "B"],
        types: list[Int64[np.ndarray, "_"]] | None,
    ) -> None:
        past = np.zeros((len(memory), FIRST_CAPACITY, memory.shape[2]), dtype=np.float32)
        super().__init__(runtime.output, runtime.embedded.target_limit, past, types)
        self._runtime, self._memory, self._lengths = runtime, memory, lengths

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only."""
        super().select(rows)
        self._memory, self._lengths = self._memory[rows], self._lengths[rows]

    def _decoded(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        positions: Int64[np.ndarray, "B Q"],
        visible: Bool[np.ndarray, "B Q T"],
        ends: Int64[np.ndarray, "B"],
    ) -> Float32[np.ndarray, "B Q D"]:
        """Run the decoder, and keep keys and values of the tokens behind `ends[b]` earlier ones."""
        runtime, longest = self._runtime, int(self._lengths.max())
        batch, count = tokens.shape
        found = runtime.decoder(
            {
                "source_mask": mask(self._lengths, longest),
                "keys_values": self._memory[:, :longest].reshape(batch * longest, -1),
                "tokens": runtime.embedded.targets(tokens, positions),
                "token_mask": np.ones(tokens.shape, dtype=np.int32),
                "bias": np.where(visible, np.float32(0), FORBIDDEN)[:, None],
                "past": np.ascontiguousarray(self._past[:, : self._used]),
            }
        )
        place = ends[:, None] + np.arange(count)
        self._make_room(int(place.max()) + 1)
        self._past[np.arange(batch)[:, None], place] = found["new"]
        return found["states"].reshape(batch, count, -1)
