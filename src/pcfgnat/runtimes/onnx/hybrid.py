"""Hybrid networks on onnxruntime: the encoder runs once, for drafts and for what reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import DECODER, ENCODER, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.onnx.layout import mask
from pcfgnat.runtimes.onnx.one_pass import OnnxTables
from pcfgnat.runtimes.onnx.steps import OnnxStepper


@dataclass(frozen=True)
class Encoded:
    """Sentences that were encoded together, as indices, and what the encoder gave out."""

    group: Sequence[int]
    outputs: dict[str, np.ndarray]


class OnnxHybrid(OnnxTables):
    """An exported network that drafts and reads."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        self._copied = ("memory",) if self.metadata.shape.copy_input else ()
        self._encoder = self.session(ENCODER, ("keys_values", "draft_keys_values", *self._copied))
        self.decoder = self.session(DECODER, ("states", "new"))

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.embedded.target_limit + 1

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""
        return self.read_drafts(sources).grammars()

    def start(self, sources: Sources) -> OnnxStepper:
        """Encode sources."""
        self.check(sources)
        return OnnxDraftsReader(self, sources, [self._encoded(sources, range(len(sources)))]).start()

    def read_drafts(self, sources: Sources) -> "OnnxDraftsReader":
        """Encode sources, those of similar length together."""
        parts = [self._encoded(sources, group) for group in self.groups(sources)]
        return OnnxDraftsReader(self, sources, parts)

    def drafted(self, sources: Sources, outputs: dict[str, np.ndarray]) -> Grammars:
        """Return the grammars of encoded sources."""
        lengths = np.array([len(source) for source in sources])
        encoded = {"keys_values": outputs["draft_keys_values"]}
        encoded |= {name: outputs[name] for name in self._copied}
        return self.tabulated(*self.run(sources, self.inputs.beside(lengths) | encoded))

    def _encoded(self, sources: Sources, group: Sequence[int]) -> Encoded:
        embedded, lengths = self.embedded.sources([sources[index] for index in group])
        inputs = {"source": embedded, "source_mask": mask(lengths, int(lengths.max()))}
        return Encoded(group, self._encoder(inputs))


@dataclass(frozen=True)
class OnnxDraftsReader:
    """Sources that have been encoded, in groups."""

    runtime: OnnxHybrid
    sources: Sources
    parts: Sequence[Encoded]

    def grammars(self) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""
        for part in self.parts:
            own = [self.sources[index] for index in part.group]
            yield part.group, self.runtime.drafted(own, part.outputs)

    def start(self) -> OnnxStepper:
        """Return the reader of all sources; keys and values of shorter ones are padded."""
        lengths = np.array([len(source) for source in self.sources])
        width = self.parts[0].outputs["keys_values"].shape[1]
        memory = np.zeros((len(lengths), int(lengths.max()), width), dtype=np.float32)
        for part in self.parts:
            rows = part.outputs["keys_values"].reshape(len(part.group), -1, width)
            memory[list(part.group), : rows.shape[1]] = rows
        return OnnxStepper(self.runtime, memory, lengths, self.runtime.token_choices(self.sources))
