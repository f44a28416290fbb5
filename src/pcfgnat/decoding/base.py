"""What all strategies share: typed values with their own settings, and what is asked of all of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Sources

MAX_LENGTH_PENALTY = 100.0


class DecodingError(ValueError):
    """A strategy, or settings of one, that cannot be used."""


@dataclass(frozen=True)
class Request:
    """What is asked of every strategy.

    results:        how many translations of each sentence are wanted, where a strategy finds several
    length_penalty: the β of `score / L^β`, where L counts bos and eos: greater ones favour longer sentences
    max_length:     greatest length, or one for each sentence; without it, twice the source's
    seed:           of strategies that draw; what is drawn depends on it and on the sentence alone
    word_starts:    tokens that begin a word, for strategies that avoid repeated words; None: all do
    """

    results: int = 1
    length_penalty: float = 1.0
    max_length: int | tuple[int, ...] | None = None
    seed: int = 1
    word_starts: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if self.results < 1:
            raise DecodingError(f"results must be at least 1, got {self.results}")
        if not abs(self.length_penalty) <= MAX_LENGTH_PENALTY:
            limit = f"{MAX_LENGTH_PENALTY:g}"
            raise DecodingError(f"length_penalty must be in -{limit} … {limit}, got {self.length_penalty}")
        limits = self.max_length if isinstance(self.max_length, tuple) else (self.max_length,)
        if any(limit is not None and limit < 1 for limit in limits):
            raise DecodingError(f"max_length must be at least 1, got {self.max_length}")
        if self.seed < 0:
            raise DecodingError(f"seed must not be negative, got {self.seed}")

    def limits(self, defaults: Sequence[int]) -> list[int]:
        """Return the greatest length of each sentence; `defaults` hold where nothing is asked for."""
        if self.max_length is None:
            return list(defaults)
        if isinstance(self.max_length, int):
            return [self.max_length] * len(defaults)
        if len(self.max_length) != len(defaults):
            raise DecodingError(
                f"max_length must have {len(defaults)} limits, one per sentence, got {len(self.max_length)}"
            )
        return list(self.max_length)

    def starts(self, vocabulary: int) -> frozenset[int]:
        """Return the tokens of a vocabulary that begin a word."""
        return frozenset(range(vocabulary)) if self.word_starts is None else self.word_starts

    def generators(self, sources: Sources) -> list[np.random.Generator]:
        """Return random numbers for each sentence that follow from the seed and its tokens."""
        return [np.random.default_rng([self.seed, *source]) for source in sources]


class Strategy(ABC):
    """A way to decode: a frozen value whose fields are its settings.

    name:           what people call it; strategies of different protocols may share one
    protocol:       what it needs of a runtime
    uses_penalty:   whether the length penalty changes what it finds
    draws:          whether it draws at random
    switches:       settings that are written only if they are on: records of jobs from before lack them
    """

    name: ClassVar[str]
    protocol: ClassVar[Any]
    uses_penalty: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    switches: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def decode(self, runtime: Any, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return up to `request.results` translations of each sentence, best first, `bos … eos`."""

    def sweep(
        self, runtime: Any, sources: Sources, request: Request, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation of each sentence under each length penalty."""
        wanted = length_penalties if self.uses_penalty else length_penalties[:1]
        asked = [replace(request, results=1, length_penalty=penalty) for penalty in wanted]
        found = [self.decode(runtime, sources, single) for single in asked]
        columns = found if self.uses_penalty else found * len(length_penalties)
        return [[results[0] for results in sentence] for sentence in zip(*columns, strict=True)]
