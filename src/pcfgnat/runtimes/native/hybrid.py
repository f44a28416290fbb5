"""Hybrid networks on the kernels: the encoder runs once, for drafts and for what reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.base import Encoded, bounds_of
from pcfgnat.runtimes.native.steps import NativeStepper, TokenReader
from pcfgnat.runtimes.native.tables import NativeTables


class NativeHybrid(NativeTables):
    """An exported network that drafts and reads."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        positions = self.table("reader_positions", self.metadata.shape.max_source_length, self.size.width)
        self.reader = TokenReader(self, positions, names.READER)

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.reader.limit + 1

    def start(self, sources: Sources) -> NativeStepper:
        """Encode sources."""
        self.check(sources)
        return NativeStepper(self.reader, self.encode(sources), self.token_choices(sources))

    def read_drafts(self, sources: Sources) -> "NativeDraftsReader":
        """Encode sources, those of similar length together."""
        self.check(sources)
        groups = self.groups(sources)
        parts = [[sources[index] for index in group] for group in groups]
        return NativeDraftsReader(self, sources, groups, list(self.each(self.encode, parts)))


@dataclass(frozen=True)
class NativeDraftsReader:
    """Sources that have been encoded, in groups."""

    runtime: NativeHybrid
    sources: Sources
    groups: Sequence[Sequence[int]]
    encoded: Sequence[Encoded]

    def grammars(self) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""
        parts = [[self.sources[index] for index in group] for group in self.groups]
        drafted = self.runtime.each(self._drafted, list(zip(parts, self.encoded, strict=True)))
        yield from zip(self.groups, drafted, strict=True)

    def _drafted(self, part: tuple[Sources, Encoded]) -> Grammars:
        return self.runtime.drafted(*part)

    def start(self) -> NativeStepper:
        """Return the reader of all sources."""
        return NativeStepper(self.runtime.reader, self._together(), self.runtime.token_choices(self.sources))

    def _together(self) -> Encoded:
        """Return the states of all sources in their own order."""
        if len(self.encoded) == 1 and len(self.sources) == 1:
            return self.encoded[0]
        parts: list[np.ndarray] = [np.empty(0)] * len(self.sources)
        for group, encoded in zip(self.groups, self.encoded, strict=True):
            for place, index in enumerate(group):
                parts[index] = encoded.states[encoded.bounds[place] : encoded.bounds[place + 1]]
        return Encoded(np.concatenate(parts), bounds_of([len(part) for part in parts]))
