"""What decoding is asked for and what it finds, as plain values that need no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcfgnat.grammar.parse_tree import ParseTree


@dataclass(frozen=True)
class SpecialTokens:
    """Ids that decoding treats apart: never inside a sentence, bos first and eos last."""

    bos: int
    eos: int
    pad: int
    unk: int

    @property
    def ids(self) -> tuple[int, ...]:
        """All of them, each once."""
        return tuple(sorted({self.bos, self.eos, self.pad, self.unk}))


@dataclass(frozen=True)
class Search:
    """How to decode.

    max_length:     greatest length, or one for each sentence
    length_penalty: the β of `score / L^β`
    special_tokens: ids that never stand inside a sentence; without them all ids are alike
    beam_size:      hypotheses that a beam keeps, or samples that are drawn
    results:        how many of the best are wanted, where a strategy finds several
    """

    strategy: str = "viterbi"
    max_length: int | tuple[int, ...] | None = None
    length_penalty: float = 1.0
    special_tokens: SpecialTokens | None = None
    beam_size: int = 5
    results: int = 1

    def __post_init__(self) -> None:
        limits = self.max_length if isinstance(self.max_length, tuple) else (self.max_length,)
        if any(limit is not None and limit < 1 for limit in limits):
            raise ValueError(f"max_length must be at least 1, got {self.max_length}")
        for name, value in (("beam_size", self.beam_size), ("results", self.results)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def limits(self, longest: Sequence[int]) -> list[int]:
        """Return the greatest length of each sentence, if `longest` is what it could have at all."""
        if not isinstance(self.max_length, tuple):
            return [min(self.max_length or most, most) for most in longest]
        if len(self.max_length) != len(longest):
            raise ValueError(
                f"max_length must have one limit for each of {len(longest)} sentences, "
                f"got {len(self.max_length)}"
            )
        return [min(pair) for pair in zip(self.max_length, longest, strict=True)]

    def require(self, *strategies: str) -> None:
        """Raise an error unless the strategy is one of these."""
        if self.strategy not in strategies:
            raise ValueError(f"strategy must be one of {', '.join(strategies)}, got {self.strategy!r}")


@dataclass(frozen=True)
class Round:
    """A draft that was read by another model, eos included, and how many of its tokens were accepted."""

    draft: tuple[int, ...]
    accepted: int


@dataclass(frozen=True)
class Verified:
    """What a model wrote that read drafts of another: its ids, their log-probability, and the rounds it took.

    read: of each round, how many tokens had been verified before, and the log-probability of these and of the
          whole draft
    """

    ids: tuple[int, ...]
    score: float
    rounds: tuple[Round, ...]
    read: tuple[tuple[int, float], ...]

    def sentences(self) -> dict[tuple[int, ...], float]:
        """Return all sentences that were read, the result first, and the log-probability of each."""
        drafted = zip(self.read, self.rounds, strict=True)
        return {self.ids: self.score} | {(*self.ids[:n], *own.draft): score for (n, score), own in drafted}


@dataclass(frozen=True)
class Hypothesis:
    """A decoded sentence: its ids, the log-probability of it with its structure, and that structure.

    `nodes[i]` is the node (symbol, vertex or slot) that emitted token i; `tree` is there for grammars,
    `passes` (the ids after each) for sentences written in several passes, and `rounds` for those that were
    drafted and verified.
    """

    ids: tuple[int, ...]
    score: float
    nodes: tuple[int, ...]
    tree: ParseTree | None = None
    passes: tuple[tuple[int, ...], ...] = ()
    rounds: tuple[Round, ...] = ()

    def normalised_score(self, length_penalty: float) -> float:
        """`score / L^β`, by which hypotheses of different lengths are compared."""
        return float(self.score / max(len(self.ids), 1) ** length_penalty)
