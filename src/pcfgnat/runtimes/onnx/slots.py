"""Canvases on onnxruntime that are filled again and again: the encoder runs once, the decoder as wanted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.grammar.canvas import Framing, seen_nodes
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import DECODER, ENCODER, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.onnx.base import OnnxRuntime
from pcfgnat.runtimes.onnx.layout import FORBIDDEN, empty_canvases, mask, opposite_rows
from pcfgnat.runtimes.onnx.one_pass import OnnxSlotScores
from pcfgnat.runtimes.output import Emissions
from pcfgnat.text.special import SPECIAL_TOKENS


class OnnxCanvases(OnnxRuntime):
    """An exported network whose encoder and decoder are graphs of their own."""

    def __init__(self, exported: Exported, options: ExportedOptions, heads: Sequence[str] = ()) -> None:
        super().__init__(exported, options)
        copies = ("memory",) if self.metadata.shape.copy_input else ()
        self._heads = heads
        self.encoder = self.session(ENCODER, ("keys_values", *heads, *copies))
        self.decoder = self.session(DECODER, ("states",))

    @property
    def max_canvas_length(self) -> int:
        """The longest canvas, bos and eos included."""
        return self.metadata.shape.max_canvas_length

    def encoded(self, sources: Sources) -> "Encoded":
        """Run the encoder."""
        self.check(sources)
        embedded, lengths = self.embedded.sources(sources)
        found = self.encoder({"source": embedded, "source_mask": mask(lengths, int(lengths.max()))})
        memory = {
            name: array.reshape(len(sources), int(lengths.max()), -1)
            for name, array in found.items()
            if name not in self._heads
        }
        return Encoded(self, sources, lengths, memory, {name: found[name] for name in self._heads})


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sources that have been encoded.

    memory: `[B, N, ·]` by name of the decoder's inputs
    heads:  what else the encoder predicts of each sentence, by name
    """

    runtime: OnnxCanvases
    sources: Sources
    lengths: Int64[np.ndarray, "B"]
    memory: dict[str, Float32[np.ndarray, "B N _"]]
    heads: dict[str, Float32[np.ndarray, "B _"]]

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
        more: Mapping[str, np.ndarray] | None = None,
    ) -> Emissions:
        """Run the decoder over R canvases, each of a sentence; some decoders want `more` inputs."""
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
        states = runtime.decoder(inputs | dict(more or {}))["states"].reshape(*canvas.shape, -1)
        types = runtime.token_choices([self.sources[index] for index in sentence])
        blank = SPECIAL_TOKENS.pad if runtime.metadata.shape.blank else None
        return Emissions(runtime.output, states, lengths, 0, types, blank)


class OnnxSlots(OnnxCanvases):
    """Slots of a predicted number."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options, ("length",))

    def read(self, sources: Sources) -> "OnnxSlotsReader":
        """Encode sources."""
        return OnnxSlotsReader(self.encoded(sources))


@dataclass(frozen=True, eq=False)
class OnnxSlotsReader:
    """Sources that have been encoded."""

    encoded: Encoded

    def length_log_probs(self) -> Float[np.ndarray, "B L"]:
        """Return log-probabilities of the classes of lengths."""
        scores = self.encoded.heads["length"]
        scores = scores - scores.max(1, keepdims=True)
        normalised: np.ndarray = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return normalised

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Emissions:
        """Run the decoder over R canvases, each of a sentence."""
        return self.encoded.fill(sentence, canvas, lengths)


class OnnxVisibleSlots(OnnxSlots):
    """Slots of a predicted number, each of which sees a set of others of its own."""

    def read(self, sources: Sources) -> "OnnxVisibleReader":
        """Encode sources."""
        return self.read_visible(sources)

    def read_visible(self, sources: Sources) -> "OnnxVisibleReader":
        """Encode sources."""
        return OnnxVisibleReader(self.encoded(sources))


@dataclass(frozen=True, eq=False)
class OnnxVisibleReader(OnnxSlotsReader):
    """Sources that have been encoded."""

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Emissions:
        """Run the decoder over R canvases; each slot sees all others that are not blank."""
        shown = np.broadcast_to((canvas != SPECIAL_TOKENS.unk)[:, None], (*canvas.shape, canvas.shape[1]))
        return self.fill_visible(sentence, canvas, lengths, shown)

    def fill_visible(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
        visible: Bool[np.ndarray, "R M M"],
    ) -> Emissions:
        """Run the decoder over R canvases, of which each slot sees what it may."""
        rows, width = canvas.shape
        seen = seen_nodes(visible, np.arange(width), lengths)
        more = {
            "queries": self.encoded.runtime.embedded.positions(rows, width),
            "hidden": np.where(seen, np.float32(0), FORBIDDEN)[:, None],
        }
        return self.encoded.fill(sentence, canvas, lengths, more)


class OnnxOpenFrames(OnnxCanvases):
    """Slots that collapse, of which some are known to the decoder."""

    framing = Framing(ends=False, blank=SPECIAL_TOKENS.pad)

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        geometry = self.metadata.shape.geometry
        if geometry is None or geometry.structure != "slots":
            found = "none" if geometry is None else repr(geometry.structure)
            raise CheckpointError(
                f"{exported.directory}: shape.geometry.structure of {self.metadata.network_name} must be "
                f"'slots', got {found}"
            )
        self.geometry = geometry

    def read_frames(self, sources: Sources) -> "OnnxFramesReader":
        """Encode sources."""
        encoded = self.encoded(sources)
        return OnnxFramesReader(encoded, self.geometry.canvas_lengths(encoded.lengths))

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence[OnnxSlotScores]]]:
        """Yield all sources with the slots of empty canvases."""
        if sources:
            reader, rows = self.read_frames(sources), np.arange(len(sources))
            yield (
                range(len(sources)),
                reader.fill(rows, empty_canvases(reader.canvas_lengths), reader.canvas_lengths),
            )


@dataclass(frozen=True, eq=False)
class OnnxFramesReader:
    """Sources that have been encoded."""

    encoded: Encoded
    canvas_lengths: Int64[np.ndarray, "B"]

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Sequence[OnnxSlotScores]:
        """Run the decoder over R canvases, each of a sentence."""
        emissions = self.encoded.fill(sentence, canvas, lengths)
        best = cache(partial(emissions.plain, [np.arange(length) for length in lengths]))
        return [OnnxSlotScores(emissions, index, best) for index in range(len(sentence))]
