"""Two networks as one runtime: one proposes translations, the other reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.runtimes.base import Latents, LatentsReader, Sources, Stepper, Steps, Tables


@dataclass(frozen=True)
class Paired:
    """A drafter and a verifier, which share a tokenizer; each may run in torch or on onnxruntime."""

    drafter: Tables
    verifier: Steps

    @property
    def max_source_length(self) -> int:
        """The longest source that both can read, bos and eos included."""
        return min(self.drafter.max_source_length, self.verifier.max_source_length)

    @property
    def max_target_length(self) -> int:
        """The longest sentence that the verifier can write, bos and eos included."""
        return self.verifier.max_target_length

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield the drafter's grammars."""
        return self.drafter.grammars(sources)

    def start(self, sources: Sources) -> Stepper:
        """Encode sources by the verifier."""
        return self.verifier.start(sources)

    def read_drafts(self, sources: Sources) -> "PairedReader":
        """Return sources that each model encodes by itself when it is asked."""
        return PairedReader(self, sources)


@dataclass(frozen=True)
class PairedReader:
    """Sources of a pair."""

    pair: Paired
    sources: Sources

    def grammars(self) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield the drafter's grammars."""
        return self.pair.grammars(self.sources)

    def start(self) -> Stepper:
        """Encode the sources by the verifier."""
        return self.pair.start(self.sources)


@dataclass(frozen=True)
class PairedLatents:
    """Latents that propose and a verifier, which share a tokenizer."""

    drafter: Latents
    verifier: Steps

    @property
    def max_source_length(self) -> int:
        """The longest source that both can read, bos and eos included."""
        return min(self.drafter.max_source_length, self.verifier.max_source_length)

    @property
    def max_target_length(self) -> int:
        """The longest sentence that the verifier can write, bos and eos included."""
        return self.verifier.max_target_length

    @property
    def max_latents(self) -> int:
        """The greatest number of positions."""
        return self.drafter.max_latents

    def read_latents(self, sources: Sources) -> LatentsReader:
        """Encode sources by the drafter."""
        return self.drafter.read_latents(sources)

    def start(self, sources: Sources) -> Stepper:
        """Encode sources by the verifier."""
        return self.verifier.start(sources)
