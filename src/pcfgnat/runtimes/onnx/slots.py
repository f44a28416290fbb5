"""Slots of a predicted number on onnxruntime: the encoder runs once, the decoder as often as wanted."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int64

from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.onnx.base import OnnxOptions, OnnxRuntime
from pcfgnat.runtimes.onnx.exported import DECODER, ENCODER, Exported
from pcfgnat.runtimes.onnx.layout import mask, opposite_rows
from pcfgnat.runtimes.onnx.output import Emissions
from pcfgnat.text.special import SPECIAL_TOKENS


class OnnxSlots(OnnxRuntime):
    """An exported network of slots."""

    def __init__(self, exported: Exported, options: OnnxOptions) -> None:
        super().__init__(exported, options)
        copies = ("memory",) if self.metadata.shape.copy_input else ()
        self.encoder = self.session(ENCODER, ("keys_values", "length", *copies))
        self.decoder = self.session(DECODER, ("states",))

    @property
    def max_canvas_length(self) -> int:
        """The longest canvas, bos and eos included."""
        return self.metadata.shape.max_canvas_length

    def read(self, sources: Sources) -> "OnnxSlotsReader":
        """Encode sources."""
        self.check(sources)
        embedded, lengths = self.embedded.sources(sources)
        found = self.encoder({"source": embedded, "source_mask": mask(lengths, int(lengths.max()))})
        by_sentence = {
            name: array.reshape(len(sources), int(lengths.max()), -1)
            for name, array in found.items()
            if name != "length"
        }
        return OnnxSlotsReader(self, sources, lengths, by_sentence, found["length"])


@dataclass(frozen=True, eq=False)
class OnnxSlotsReader:
    """Sources that have been encoded: `memory` holds `[B, N, ·]` by name of the decoder's inputs."""

    runtime: OnnxSlots
    sources: Sources
    lengths: Int64[np.ndarray, "B"]
    memory: dict[str, Float32[np.ndarray, "B N _"]]
    length_scores: Float32[np.ndarray, "B L"]

    def length_log_probs(self) -> Float[np.ndarray, "B L"]:
        """Return log-probabilities of the classes of lengths."""
        scores = self.length_scores - self.length_scores.max(1, keepdims=True)
        normalised: np.ndarray = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return normalised

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Emissions:
        """Run the decoder over R canvases, each of a sentence."""
        runtime, source_lengths = self.runtime, self.lengths[sentence]
        longest = int(source_lengths.max())
        inputs = {
            name: np.ascontiguousarray(states[sentence, :longest]).reshape(len(sentence) * longest, -1)
            for name, states in self.memory.items()
        }
        if runtime.metadata.shape.copy_input:
            inputs["opposite"] = opposite_rows(source_lengths, lengths)
        inputs["source_mask"] = mask(source_lengths, longest)
        inputs["canvas"] = runtime.embedded.canvases(canvas)
        inputs["canvas_mask"] = mask(lengths, canvas.shape[1])
        states = runtime.decoder(inputs)["states"].reshape(*canvas.shape, -1)
        types = runtime.token_choices([self.sources[index] for index in sentence])
        blank = SPECIAL_TOKENS.pad if runtime.metadata.shape.blank else None
        return Emissions(runtime.output, states, lengths, 0, types, blank)
