"""What decoding is asked for and what it finds, as plain values that need no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class ReadDraft(NamedTuple):
    """A sentence whose first `given` tokens had been verified, and the rest drafted.

    score:      its log-probability for the model that read it
    tree_score: that of the drafter's best tree of it; -inf where there is none
    """

    given: int
    score: float
    tree_score: float


@dataclass(frozen=True)
class Verified:
    """What a model wrote that read drafts of another: its ids, their log-probability, and the rounds it took.

    tree_score: that of the drafter's best tree of it
    read:       of each round, what is known of the sentence that it drafted, if all of it was read
    """

    ids: tuple[int, ...]
    score: float
    tree_score: float
    rounds: tuple[Round, ...]
    read: tuple[ReadDraft, ...]

    def sentences(self) -> dict[tuple[int, ...], tuple[float, float]]:
        """Return all sentences that were read, the result first, with both models' scores of each."""
        found = {self.ids: (self.score, self.tree_score)}
        for draft, own in zip(self.read, self.rounds, strict=True):
            found.setdefault((*self.ids[: draft.given], *own.draft), (draft.score, draft.tree_score))
        return found


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
