"""Candidates of a grammar or graph, ranked by an autoregressive model that reads all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.stepwise import FIRST, LAST, token_table
from pcfgnat.decoding.structured import LimitedGroup, limited_grammars
from pcfgnat.decoding.verify import reading_limits, verified
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.search import Hypothesis, Verified
from pcfgnat.runtimes.base import (
    Drafts,
    DraftsReader,
    DraftsVerifier,
    Sources,
    Stepper,
    Verifying,
    offers,
)
from pcfgnat.text.special import SPECIAL_TOKENS

if TYPE_CHECKING:
    from pcfgnat.grammar.k_best import RankedSentences


@dataclass(frozen=True, eq=False)
class Candidates:
    """Candidates of one sentence of a batch, all different, with both models' scores.

    ranked:  the drafter's best, which come first and whose trees are known
    ids:     of all
    drafted: scores of the drafter's best trees; -inf for what has none
    read:    log-probabilities for the reader
    """

    grammars: Grammars
    index: int
    ranked: "RankedSentences | None" = None
    ids: tuple[tuple[int, ...], ...] = ()
    drafted: tuple[float, ...] = ()
    read: tuple[float, ...] = ()

    def first(self, ranked: "RankedSentences", read: Sequence[float]) -> "Candidates":
        """Return the drafter's best sentences as candidates."""
        rows = zip(ranked.ids.tolist(), ranked.lengths.tolist(), strict=True)
        ids = tuple([tuple(own[:length]) for own, length in rows])
        return Candidates(self.grammars, self.index, ranked, ids, tuple(ranked.scores.tolist()), tuple(read))

    def beside(self, verified: Verified) -> "Candidates":
        """Return these and all others that were read when drafts were verified."""
        known = set(self.ids)
        fresh = {ids: scores for ids, scores in verified.sentences().items() if ids not in known}
        return replace(
            self,
            ids=(*self.ids, *fresh),
            drafted=(*self.drafted, *(tree for _, tree in fresh.values())),
            read=(*self.read, *(score for score, _ in fresh.values())),
        )

    def best(self, weight: float, length_penalty: float, results: int) -> list[Hypothesis]:
        """Return the best by the weighted `score / L^β`; 0 times an impossible sentence is 0."""
        pairs = zip(self.read, self.drafted, strict=True)
        scores = [_weighed(weight, *pair) for pair in pairs]
        values = [score / len(ids) ** length_penalty for score, ids in zip(scores, self.ids, strict=True)]
        order = sorted(range(len(values)), key=lambda place: -values[place])
        return [self._hypothesis(place, scores[place]) for place in order[:results]]

    def _hypothesis(self, place: int, score: float) -> Hypothesis:
        """Return a candidate, with its best tree if it has one."""
        ranked, ids = self.ranked, self.ids[place]
        if ranked is None or place >= len(ranked):
            from pcfgnat.grammar.k_best import scored_sentences  # numba takes a moment

            place, ranked = 0, scored_sentences(self.grammars, self.index, [ids], SPECIAL_TOKENS)
            if not ranked.scores[0] > -np.inf:
                return Hypothesis(ids, score, tuple(range(len(ids))))
        found = ranked.hypothesis(self.grammars, self.index, place)
        return Hypothesis(ids, score, found.nodes, found.tree)


def _weighed(weight: float, read: float, drafted: float) -> float:
    """Return the weighted sum of both models' scores."""
    if weight in (0, 1):
        return read if weight else drafted
    return weight * read + (1 - weight) * drafted


@dataclass(frozen=True)
class Rescore(Strategy):
    """Sentences of the grammar or graph and of an autoregressive model that reads them, ranked by both.

    `score` is the weighted sum of both models' log-probabilities; that of the tree is the drafter's.

    size:   how many of the drafter's best sentences are candidates, all different; they are read at once
    weight: of the reader; 1 leaves the choice to it, 0 to the drafter
    verify: whether the reader's own greedy translation, and all drafts on the way to it, are candidates too
    """

    size: int = 8
    weight: float = 1.0
    verify: bool = True

    name = "rescore"
    protocol = Drafts
    uses_penalty = True

    def __post_init__(self) -> None:
        if self.size < (0 if self.verify else 1):
            least = "0" if self.verify else "1 without verify"
            raise DecodingError(f"size must be at least {least}, got {self.size}")
        if not 0 <= self.weight <= 1:
            raise DecodingError(f"weight must be in 0 … 1, got {self.weight}")

    def decode(self, runtime: Drafts, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the best candidates by `score / L^β`."""
        penalty, results = request.length_penalty, request.results
        found = self._candidates(runtime, sources, request)
        return [own.best(self.weight, penalty, results) for own in found]

    def weigh(
        self, runtime: Drafts, sources: Sources, request: Request, weights: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best candidate of each sentence under each weight, all from one decoding."""
        found, penalty = self._candidates(runtime, sources, request), request.length_penalty
        return [[own.best(weight, penalty, 1)[0] for weight in weights] for own in found]

    def _candidates(self, runtime: Drafts, sources: Sources, request: Request) -> list[Candidates]:
        """Return the candidates of each sentence, best of the drafter first."""
        if not sources:
            return []
        reader = runtime.read_drafts(sources)
        groups = list(limited_grammars(reader.grammars(), sources, _readable(runtime, sources, request)))
        places = {index: (own, place) for group, own, _ in groups for place, index in enumerate(group)}
        found = [Candidates(*places[index]) for index in range(len(sources))]
        if self.size:
            count = max(self.size, request.results)
            found = _ranked(found, groups, reader, request.length_penalty, count)
        if self.verify:
            limits = reading_limits(runtime, sources, request)
            how = Verifying(request.length_penalty, 0.0, whole=True)
            found = list(map(Candidates.beside, found, verified(reader, groups, limits, how)))
        return found


def _ranked(
    found: Sequence[Candidates],
    groups: Sequence[LimitedGroup],
    reader: DraftsReader,
    length_penalty: float,
    count: int,
) -> list[Candidates]:
    """Return the best sentences of each grammar as candidates."""
    from pcfgnat.grammar.one_sentence import ranked_sentences  # numba takes a moment

    best: dict[int, RankedSentences] = {}
    for group, grammars, limits in groups:
        own = ranked_sentences(grammars, limits, length_penalty, count, SPECIAL_TOKENS)
        best.update(zip(group, own, strict=True))
    ranked = [best[index] for index in range(len(found))]
    if offers(reader, DraftsVerifier):
        read = [reader.score(index, own.ids, own.lengths) for index, own in enumerate(ranked)]
    else:
        read = read_ranked(reader.start(), ranked)
    return [own.first(best, scores.tolist()) for own, best, scores in zip(found, ranked, read, strict=True)]


def read_ranked(stepper: Stepper, ranked: Sequence["RankedSentences"]) -> list[Float[np.ndarray, "_"]]:
    """Return the log-probabilities that each sentence's candidates have for the reader, in one reading."""
    counts, lengths = [len(own) for own in ranked], np.concatenate([own.lengths for own in ranked])
    ids = np.full((len(lengths), int(lengths.max())), LAST, dtype=np.int64)
    for end, own in zip(np.cumsum(counts), ranked, strict=True):
        width = min(ids.shape[1], own.ids.shape[1])
        ids[end - len(own) : end, :width] = own.ids[:, :width]
    read = read_rows(stepper, np.repeat(np.arange(len(ranked)), counts), ids, lengths)
    return np.split(read, np.cumsum(counts)[:-1])


def read_scores(
    stepper: Stepper, candidates: Sequence[Sequence[Hypothesis]]
) -> list[list[tuple[Hypothesis, float]]]:
    """Return candidates with the log-probabilities that they have for the reader, which reads all at once."""
    rows = [one.ids for own in candidates for one in own]
    lengths = np.array([len(ids) for ids in rows], dtype=np.int64)
    owners = np.repeat(np.arange(len(candidates)), [len(own) for own in candidates])
    read = iter(read_rows(stepper, owners, token_table(rows, int(lengths.max()), FIRST), lengths).tolist())
    return [[(one, next(read)) for one in own] for own in candidates]


def read_rows(
    stepper: Stepper,
    owners: Int64[np.ndarray, "R"],
    ids: Int64[np.ndarray, "R N"],
    lengths: Int64[np.ndarray, "R"],
) -> Float[np.ndarray, "R"]:
    """Return the reader's log-probabilities of rows of tokens, `bos … eos`, each of a sentence."""
    stepper.select(owners)
    width = int(lengths.max()) - 1
    tokens, following = (np.ascontiguousarray(ids[:, start : start + width]) for start in (0, 1))
    reading = stepper.read(tokens, following, np.zeros(len(ids), dtype=np.int64))
    inside = np.arange(width) < lengths[:, None] - 1
    total: np.ndarray = np.where(inside, reading.given_log_probs, 0.0).sum(1, dtype=np.float64)
    return total


def _readable(runtime: Drafts, sources: Sources, request: Request) -> Request:
    """Return the request with limits that the reader can read."""
    limits = request.limits([2 * len(source) for source in sources])
    return replace(request, max_length=tuple(min(limit, runtime.max_target_length) for limit in limits))
