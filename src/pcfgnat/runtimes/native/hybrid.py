"""Hybrid networks on the kernels: the encoder runs once, for drafts and for what reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Float64, Int64

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.search import Verified
from pcfgnat.runtimes.base import Limits, Sources, Verifying
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.base import Encoded
from pcfgnat.runtimes.native.kernels.candidates import score_texts
from pcfgnat.runtimes.native.output import NO_TYPES
from pcfgnat.runtimes.native.steps import NativeStepper, TokenReader
from pcfgnat.runtimes.native.tables import NativeTables
from pcfgnat.runtimes.native.verified import verified_draft


class NativeHybrid(NativeTables):
    """An exported network that drafts and reads."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        limit = self.metadata.shape.max_source_length
        self.reader = TokenReader(self, "reader_positions", limit, names.READER)

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self.reader.limit + 1

    def start(self, sources: Sources) -> NativeStepper:
        """Encode sources."""
        self.check(sources)
        return NativeStepper(self.reader, self.encode(sources), self.token_choices(sources))

    def write_greedily(self, sources: Sources, limits: Sequence[int]) -> list[tuple[tuple[int, ...], float]]:
        """Return the most probable token after the other of each source, and the log-probability of all."""
        self.check(sources)
        encoded = self.encode(sources)
        return self.reader.write_greedily(encoded, limits, self.most_types(encoded))

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
        yield from zip(self.groups, self.runtime.each(self.runtime.drafted, self.encoded), strict=True)

    def start(self) -> NativeStepper:
        """Return the reader of all sources."""
        return NativeStepper(self.runtime.reader, self._together, self.runtime.token_choices(self.sources))

    def verify(self, index: int, grammars: Grammars, place: int, limits: Limits, how: Verifying) -> Verified:
        """Draft and read until a source has been translated."""
        span = self._together.spans[index : index + 1]
        return verified_draft(self.runtime.reader, self._memory, span, grammars, place, limits, how)

    def score(
        self, index: int, texts: Int64[np.ndarray, "R N"], lengths: Int64[np.ndarray, "R"]
    ) -> Float64[np.ndarray, "R"]:
        """Return the reader's log-probabilities of translations of a source."""
        scores, span = np.empty(len(texts)), self._together.spans[index : index + 1]
        reader = self.runtime.reader
        score_texts(
            reader.operations, reader.model, self._memory, span, texts, lengths, self._types(index), scores
        )
        return scores

    def _types(self, index: int) -> Int64[np.ndarray, "K"]:
        """Return the shortlist of a source; empty, if all tokens are looked at."""
        shortlist = self.runtime.shortlist
        return NO_TYPES if shortlist is None else shortlist.types(self.sources[index])

    @cached_property
    def _memory(self) -> Float32[np.ndarray, "source_rows K"]:
        return self.runtime.reader.memory(self._together)

    @cached_property
    def _together(self) -> Encoded:
        """Return the states of all sources, whose spans are in their own order."""
        if len(self.encoded) == 1 and len(self.sources) == 1:
            return self.encoded[0]
        spans, first = np.empty((len(self.sources), 2), np.int64), 0
        for group, encoded in zip(self.groups, self.encoded, strict=True):
            spans[list(group)] = encoded.spans + first
            first += len(encoded.bytes)
        parts = zip(*((encoded.ids, encoded.bytes, encoded.scales) for encoded in self.encoded), strict=True)
        ids, bytes_, scales = map(np.concatenate, parts)
        return Encoded(ids, spans, bytes_, scales)
