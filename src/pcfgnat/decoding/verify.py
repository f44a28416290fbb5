"""Drafts of a lattice, read by an autoregressive model: its own greedy translation in a few passes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.stepwise import FIRST, LAST, length_limits, token_table
from pcfgnat.decoding.structured import limited_grammars
from pcfgnat.grammar.search import Hypothesis, Round
from pcfgnat.runtimes.base import Drafts, DraftsReader, Reading, Sources, Stepper
from pcfgnat.text.special import SPECIAL_TOKENS


@runtime_checkable
class Drafter(Protocol):
    """Proposes continuations of what is verified; `grammar/drafts.py` has one."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Add verified tokens to the prefix."""

    def continuation(self, length_penalty: float) -> tuple[int, ...]:
        """Return what may follow the prefix, eos included; () if nothing is known."""


@dataclass
class _Sentence:
    """A translation in progress: what is verified, its log-probability, and what is proposed next."""

    index: int
    limit: int
    draft: Drafter
    ids: list[int] = field(default_factory=lambda: [FIRST])
    score: float = 0.0
    proposal: tuple[int, ...] = ()
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draft.extend([FIRST])

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        return self.ids[-1] == LAST

    def propose(self, length_penalty: float) -> None:
        """Take the lattice's best continuation, without eos, as far as the limit allows."""
        room = max(self.limit - len(self.ids) - 1, 0)
        self.proposal = self.draft.continuation(length_penalty)[:-1][:room]

    def judge(self, reading: Reading, row: int, slack: float) -> None:
        """Accept the proposal up to the first token that is worse than the best one by more than `slack`."""
        draft, before, accepted = (*self.proposal, LAST), len(self.ids), 0
        for place, token in enumerate(draft):
            best, best_score = int(reading.best[row, place]), float(reading.best_log_probs[row, place])
            score = float(reading.given_log_probs[row, place])
            if ends := len(self.ids) + 1 >= self.limit:
                best, best_score = LAST, float(reading.end[row, place])
            kept = token == best or (not ends and slack > 0 and score >= best_score - slack)
            accepted += kept
            self.ids.append(token if kept else best)
            self.score += score if kept else best_score
            if not kept or self.done:
                break
        if not self.score > -math.inf:
            raise ValueError(f"sentence {self.index} has no hypothesis whose probability is a number above 0")
        self.rounds.append(Round(draft, accepted))
        if not self.done:
            self.draft.extend(self.ids[before:])

    def result(self) -> Hypothesis:
        """Return the whole sentence."""
        return Hypothesis(tuple(self.ids), self.score, tuple(range(len(self.ids))), rounds=tuple(self.rounds))


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
        found = _sentences(reader, sources, replace(request, max_length=tuple(limits)))
        sentences = sorted(found, key=lambda sentence: sentence.index)
        stepper, rows, slack = reader.start(), sentences, -math.log(self.tolerance)
        while rows:
            for row in rows:
                row.propose(request.length_penalty)
            width = 1 + max(len(row.proposal) for row in rows)
            tokens = token_table([[row.ids[-1], *row.proposal] for row in rows], width, FIRST)
            following = token_table([[*row.proposal, LAST] for row in rows], width, LAST)
            kept = np.array([len(row.ids) - 1 for row in rows], dtype=np.int64)
            reading = stepper.read(tokens, following, kept)
            for number, row in enumerate(rows):
                row.judge(reading, number, slack)
            going = [number for number, row in enumerate(rows) if not row.done]
            if going and len(going) < len(rows):
                stepper.select(np.array(going, dtype=np.int64))
            rows = [rows[number] for number in going]
        return [[sentence.result()] for sentence in sentences]


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


def _sentences(reader: DraftsReader, sources: Sources, request: Request) -> Iterator[_Sentence]:
    """Yield all sentences, in the order in which the drafter runs them; each has a limit in the request."""
    from pcfgnat.grammar.drafts import start_drafts  # numba takes a moment

    limits = request.limits([2 * len(source) for source in sources])
    for group, grammars, longest in limited_grammars(reader.grammars(), sources, request):
        drafts = start_drafts(grammars, longest, SPECIAL_TOKENS)
        yield from (
            _Sentence(index, limits[index], draft) for index, draft in zip(group, drafts, strict=True)
        )
