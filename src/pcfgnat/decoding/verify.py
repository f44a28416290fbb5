"""Drafts of a lattice, read by an autoregressive model: its own greedy translation in a few passes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.stepwise import FIRST, LAST, length_limits, token_table
from pcfgnat.decoding.structured import limited_grammars
from pcfgnat.grammar.search import Hypothesis, Round
from pcfgnat.runtimes.base import Drafts, DraftsReader, Reading, Sources, Stepper
from pcfgnat.text.special import SPECIAL_TOKENS

if TYPE_CHECKING:
    from pcfgnat.grammar.drafts import Draft


class _Sentence:
    """A translation in progress: its lattice with what is verified, its log-probability, and its rounds.

    size: number of tokens of the current draft, eos included
    """

    def __init__(self, index: int, limit: int, draft: "Draft") -> None:
        self.index, self.limit, self.draft = index, limit, draft
        self.score, self.size, self.done = 0.0, 1, False
        self._rounds: list[Round] = []

    def propose(self) -> int:
        """Take the lattice's best continuation as far as the limit allows; return its number of tokens."""
        draft = self.draft
        self.size = max(min(draft.propose(), self.limit - draft.given), 1)
        draft.tokens[draft.given + self.size - 1] = LAST
        return self.size

    def texts(self) -> tuple[Int64[np.ndarray, "W"], Int64[np.ndarray, "W"]]:
        """Return the tokens that are to be read, and those that follow them: the draft."""
        tokens, given = self.draft.tokens, self.draft.given
        return tokens[given - 1 : given - 1 + self.size], tokens[given : given + self.size]

    def judge(self, reading: Reading, following: Int64[np.ndarray, "B W"], row: int, slack: float) -> None:
        """Accept the draft up to the first token that is worse than the best one by more than `slack`."""
        read = (reading.best, reading.best_log_probs, reading.given_log_probs, reading.end)
        words = tuple(following[row, : self.size].tolist())
        accepted, token, score = self.draft.judge(read, following, row, self.size, slack)
        self.score += score
        if not self.score > -math.inf:
            raise ValueError(f"sentence {self.index} has no hypothesis whose probability is a number above 0")
        self._rounds.append(Round(words, accepted))
        self.done = token == LAST

    def result(self) -> Hypothesis:
        """Return the whole sentence."""
        given = self.draft.given
        ids = tuple(self.draft.tokens[:given].tolist())
        return Hypothesis(ids, self.score, tuple(range(given)), rounds=tuple(self._rounds))


@dataclass(frozen=True)
class Verify(Strategy):
    """The autoregressive model's greedy translation, exactly, from drafts of the grammar or graph.

    The best continuation of what is verified is read in one pass. It is accepted up to the first token that
    the reader would not have chosen, whose own token takes that place; the lattice then continues from there.

    tolerance: a drafted token is kept if the reader gives it at least so many times its best one's
               probability; at 1 the translation does not depend on the drafts
    """

    tolerance: float = 1.0

    name = "verify"
    protocol = Drafts
    uses_penalty = True  # drafts follow from it, and with a tolerance what is kept of them

    def __post_init__(self) -> None:
        if not 0 < self.tolerance <= 1:
            raise DecodingError(f"tolerance must be above 0 and at most 1, got {self.tolerance}")

    def decode(self, runtime: Drafts, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation of each sentence, with its rounds."""
        if not sources:
            return []
        reader = runtime.read_drafts(sources)
        limits = length_limits(runtime.max_target_length, sources, request)
        sentences = _sentences(reader, sources, replace(request, max_length=tuple(limits)))
        stepper, rows, slack = reader.start(), sentences, -math.log(self.tolerance)
        while rows:
            tokens, following = _texts(rows)
            kept = np.array([row.draft.given - 1 for row in rows], dtype=np.int64)
            reading = stepper.read(tokens, following, kept)
            for number, row in enumerate(rows):
                row.judge(reading, following, number, slack)
            going = [number for number, row in enumerate(rows) if not row.done]
            if going and len(going) < len(rows):
                stepper.select(np.array(going, dtype=np.int64))
            rows = [rows[number] for number in going]
        return [[sentence.result()] for sentence in sentences]


def _texts(rows: Sequence[_Sentence]) -> tuple[Int64[np.ndarray, "B W"], Int64[np.ndarray, "B W"]]:
    """Return what is to be read of each sentence, and what follows it: its next draft."""
    width = max([row.propose() for row in rows])
    if len(rows) == 1:
        tokens, following = rows[0].texts()
        return tokens[None], following[None]
    shape = (len(rows), width)
    tokens, following = np.full(shape, FIRST, dtype=np.int64), np.full(shape, LAST, dtype=np.int64)
    for row, *own in zip(rows, tokens, following, strict=True):
        for line, part in zip(own, row.texts(), strict=True):
            line[: row.size] = part
    return tokens, following


@dataclass(frozen=True)
class Rescore(Strategy):
    """The best sentences of the grammar or graph, ranked by an autoregressive model that reads all at once.

    `score` is the weighted sum of both models' log-probabilities; that of the tree is the drafter's.

    size:   number of candidates, all different
    weight: of the reader; 1 leaves the choice to it, 0 to the drafter
    """

    size: int = 8
    weight: float = 1.0

    name = "rescore"
    protocol = Drafts
    uses_penalty = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise DecodingError(f"size must be at least 1, got {self.size}")
        if not 0 <= self.weight <= 1:
            raise DecodingError(f"weight must be in 0 … 1, got {self.weight}")

    def decode(self, runtime: Drafts, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the best candidates by `score / L^β`."""
        penalty, results = request.length_penalty, request.results
        return [
            sorted((self._weighted(*pair) for pair in own), key=lambda one: -one.normalised_score(penalty))[
                :results
            ]
            for own in self._read(runtime, sources, request)
        ]

    def weigh(
        self, runtime: Drafts, sources: Sources, request: Request, weights: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best candidate of each sentence under each weight, all from one decoding."""
        wanted = [replace(self, weight=weight) for weight in weights]
        penalty = request.length_penalty
        return [
            [
                max((one._weighted(*pair) for pair in own), key=lambda best: best.normalised_score(penalty))
                for one in wanted
            ]
            for own in self._read(runtime, sources, request)
        ]

    def _read(
        self, runtime: Drafts, sources: Sources, request: Request
    ) -> list[list[tuple[Hypothesis, float]]]:
        """Return the candidates of each sentence, best of the drafter first, and the reader's scores."""
        from pcfgnat.grammar.one_sentence import k_best  # numba takes a moment

        if not sources:
            return []
        reader, asked = runtime.read_drafts(sources), _readable(runtime, sources, request)
        count, found = max(self.size, request.results), dict[int, list[Hypothesis]]()
        for group, grammars, limits in limited_grammars(reader.grammars(), sources, asked):
            found.update(zip(group, k_best(grammars, limits, request.length_penalty, count), strict=True))
        return read_scores(reader.start(), [found[index] for index in range(len(sources))])

    def _weighted(self, candidate: Hypothesis, read: float) -> Hypothesis:
        """Return a candidate with both models' score; 0 times an impossible sentence is 0."""
        shares = ((self.weight, read), (1 - self.weight, candidate.score))
        return replace(candidate, score=math.fsum(share * score for share, score in shares if share > 0))


def read_scores(
    stepper: Stepper, candidates: Sequence[Sequence[Hypothesis]]
) -> list[list[tuple[Hypothesis, float]]]:
    """Return candidates with the log-probabilities that they have for the reader, which reads all at once."""
    stepper.select(np.repeat(np.arange(len(candidates)), [len(own) for own in candidates]))
    rows = [one.ids for own in candidates for one in own]
    width = max(map(len, rows)) - 1
    tokens = token_table([ids[:-1] for ids in rows], width, FIRST)
    following = token_table([ids[1:] for ids in rows], width, LAST)
    reading = stepper.read(tokens, following, np.zeros(len(rows), dtype=np.int64))
    inside = np.arange(width) < np.array([len(ids) - 1 for ids in rows])[:, None]
    read = iter(np.where(inside, reading.given_log_probs, 0.0).astype(np.float64).sum(1).tolist())
    return [[(one, next(read)) for one in own] for own in candidates]


def _readable(runtime: Drafts, sources: Sources, request: Request) -> Request:
    """Return the request with limits that the reader can read."""
    limits = request.limits([2 * len(source) for source in sources])
    return replace(request, max_length=tuple(min(limit, runtime.max_target_length) for limit in limits))


def _sentences(reader: DraftsReader, sources: Sources, request: Request) -> list[_Sentence]:
    """Return all sentences, in order; each has a limit in the request."""
    from pcfgnat.grammar.drafts import DraftSettings, start_drafts  # numba takes a moment

    limits, found = request.limits([2 * len(source) for source in sources]), dict[int, _Sentence]()
    settings = DraftSettings(request.length_penalty, SPECIAL_TOKENS)
    for group, grammars, longest in limited_grammars(reader.grammars(), sources, request):
        drafts = start_drafts(grammars, longest, [limits[index] for index in group], settings)
        pairs = zip(group, drafts, strict=True)
        found.update({index: _Sentence(index, limits[index], draft) for index, draft in pairs})
    return [found[index] for index in range(len(sources))]
