"""Strategies token by token: beam search, of which greedy search is the narrowest, and sampling."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import GreedyWriter, NextTokens, Sources, Stepper, Steps, offers
from pcfgnat.text.special import SPECIAL_TOKENS

FIRST, LAST = SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos
KEPT_DONE = 0.25
MORE_THAN_SOURCE = 10  # a translation may have twice as many tokens as its source, and so many more


@dataclass(frozen=True)
class Finished:
    """A whole sentence, first and last token included, and its log-probability."""

    ids: tuple[int, ...]
    score: float

    def normalised_score(self, length_penalty: float) -> float:
        """`score / L^β`, where L counts all tokens."""
        return float(self.score / len(self.ids) ** length_penalty)


@dataclass(frozen=True)
class Choice:
    """A continuation: which open hypothesis, by what token, and the log-probability of both."""

    parent: int
    token: int
    score: float


@dataclass
class Candidates:
    """The hypotheses of one sentence: those that may be continued, all of one length, and those that ended.

    index:   which sentence of the batch
    parents: the hypotheses of the step before that the open ones continue
    """

    index: int
    limit: int
    ids: list[tuple[int, ...]] = field(default_factory=lambda: [(FIRST,)])
    scores: list[float] = field(default_factory=lambda: [0.0])
    parents: list[int] = field(default_factory=lambda: [0])
    finished: list[Finished] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of tokens of the open hypotheses."""
        return len(self.ids[0])

    def extend(self, choices: Sequence[Choice]) -> None:
        """Continue by these choices; what is not chosen is forgotten."""
        ends = [choice for choice in choices if choice.token == LAST]
        self.finished += [Finished((*self.ids[end.parent], LAST), end.score) for end in ends]
        going = [choice for choice in choices if choice.token != LAST]
        self.ids = [(*self.ids[choice.parent], choice.token) for choice in going]
        self.scores = [choice.score for choice in going]
        self.parents = [choice.parent for choice in going]

    def close(self) -> None:
        """Forget the open hypotheses."""
        self.ids, self.scores, self.parents = [], [], []


@dataclass(frozen=True)
class Stepwise(Strategy):
    """Which continuations to follow.

    `score` of a result is log P(Y|X). A sentence has at most 2·Lx + 10 tokens if nothing else is asked for,
    and never more than the decoder can read.
    """

    protocol = Steps

    @abstractmethod
    def width(self) -> int | None:
        """Return how many next tokens of each hypothesis are looked at; None: all."""

    @abstractmethod
    def choose(self, following: NextTokens, sentences: Sequence[Candidates]) -> list[list[Choice]]:
        """Return continuations of each sentence's hypotheses."""

    @abstractmethod
    def done(self, sentence: Candidates, request: Request) -> bool:
        """Whether a sentence with open hypotheses needs no more steps."""

    def ranked(self, finished: list[Finished], request: Request) -> list[Finished]:
        """Return what was found, best first."""
        return sorted(finished, key=lambda end: end.normalised_score(request.length_penalty), reverse=True)

    def decode(self, runtime: Steps, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return up to `request.results` of what was found of each sentence."""
        limits = length_limits(runtime.max_target_length, sources, request)
        found = search(self, runtime.start(sources), limits, request) if limits else []
        return [[_hypothesis(end) for end in finished[: request.results]] for finished in found]


@dataclass(frozen=True)
class Beam(Stepwise):
    """Follow the `size` best hypotheses.

    In each step all continuations of a sentence's open hypotheses are ranked by log-probability. Those among
    the first `size` that end are finished; the first `size` that do not end stay open. A sentence is done
    when `size` hypotheses have finished, or when no open one can still take the first place: its score can
    only fall, so at best it keeps it up to the length that suits it best.
    """

    size: int = 5

    name = "beam"
    uses_penalty = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise DecodingError(f"size must be at least 1, got {self.size}")

    def width(self) -> int:
        """Return twice the size: half of them may end."""
        return 2 * self.size

    def choose(self, following: NextTokens, sentences: Sequence[Candidates]) -> list[list[Choice]]:
        """Return the best continuations: at most `size` that end and `size` that do not."""
        width = following.tokens.shape[2]
        scores = _padded_scores(sentences, following)
        totals = (following.log_probs + scores[:, :, None]).reshape(len(sentences), -1)
        best = np.argsort(-totals, axis=1, kind="stable")[:, : 2 * self.size]
        tokens = np.take_along_axis(following.tokens.reshape(len(sentences), -1), best, 1)
        values = np.take_along_axis(totals, best, 1)
        rows = zip((best // width).tolist(), tokens.tolist(), values.tolist(), strict=True)
        return [self._cut(list(map(Choice, *row))) for row in rows]

    def _cut(self, ranked: list[Choice]) -> list[Choice]:
        possible = [choice for choice in ranked if choice.score > -math.inf]
        ends = [choice for choice in possible[: self.size] if choice.token == LAST]
        return ends + [choice for choice in possible if choice.token != LAST][: self.size]

    def done(self, sentence: Candidates, request: Request) -> bool:
        """Whether enough have finished, or no open one can take the first place."""
        penalty = request.length_penalty
        if len(sentence.finished) >= self.size:
            return True
        if not sentence.finished:
            return False
        best_length = sentence.limit if penalty >= 0 else sentence.length + 1
        hope: float = max(sentence.scores) / best_length**penalty
        return hope <= max(end.normalised_score(penalty) for end in sentence.finished)


@dataclass(frozen=True)
class GreedySteps(Stepwise):
    """The most probable token in each step: a beam of one."""

    name = "greedy"

    def decode(self, runtime: Steps, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation of each sentence."""
        if not offers(runtime, GreedyWriter) or not sources:
            return super().decode(runtime, sources, request)
        limits = length_limits(runtime.max_target_length, sources, request)
        return [[_hypothesis(Finished(*found))] for found in runtime.write_greedily(sources, limits)]

    def width(self) -> int:
        """Return 1: nothing is compared with the best."""
        return 1

    def choose(self, following: NextTokens, sentences: Sequence[Candidates]) -> list[list[Choice]]:
        """Return the best continuation, ended or not."""
        return Beam(1).choose(following, sentences)

    def done(self, sentence: Candidates, request: Request) -> bool:
        """Whether it has ended."""
        return bool(sentence.finished)


@dataclass(frozen=True)
class SampleSteps(Strategy):
    """Independent draws, token by token."""

    name = "sample"
    protocol = Steps
    draws = True

    def decode(self, runtime: Steps, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return `request.results` draws of each sentence, in the order drawn."""
        limits = [
            limit
            for limit in length_limits(runtime.max_target_length, sources, request)
            for _ in range(request.results)
        ]
        if not limits:
            return []
        stepper = runtime.start(sources)
        stepper.select(np.repeat(np.arange(len(sources)), request.results))
        spawned = [generator.spawn(request.results) for generator in request.generators(sources)]
        generators = tuple(generator for own in spawned for generator in own)
        drawn = search(_Draw(generators), stepper, limits, request)
        own = [[_hypothesis(finished[0])] for finished in drawn]
        return [[one for (one,) in own[i : i + request.results]] for i in range(0, len(own), request.results)]


@dataclass(frozen=True)
class _Draw(Stepwise):
    """Draw one continuation of each sentence, by random numbers of its own."""

    generators: tuple[np.random.Generator, ...]

    def width(self) -> None:
        return None

    def choose(self, following: NextTokens, sentences: Sequence[Candidates]) -> list[list[Choice]]:
        choices: list[list[Choice]] = []
        for index, sentence in enumerate(sentences):
            if not sentence.ids:
                choices.append([])
                continue
            log_probs = following.log_probs[index, 0].astype(np.float64)
            upto = np.exp(log_probs - log_probs.max()).cumsum()
            threshold = self.generators[sentence.index].random() * upto[-1]
            place = min(int(np.searchsorted(upto, threshold, side="right")), len(upto) - 1)
            token, score = int(following.tokens[index, 0, place]), float(log_probs[place])
            choices.append([Choice(0, token, sentence.scores[0] + score)])
        return choices

    def done(self, sentence: Candidates, request: Request) -> bool:
        return False  # what is open must end by itself

    def ranked(self, finished: list[Finished], request: Request) -> list[Finished]:
        return finished


def search(
    strategy: Stepwise, stepper: Stepper, limits: Sequence[int], request: Request
) -> list[list[Finished]]:
    """Decode a batch of sentences of at most `limits` tokens each, bos and eos included.

    A hypothesis that has come to the limit less one ends there, whatever that costs. Scores are the network's
    own log-probabilities: banned tokens are left out, but their share is not given to the others.
    """
    sentences = [Candidates(index, limit) for index, limit in enumerate(limits)]
    rows, visible, read = sentences, None, 0
    while rows:
        width = max(len(row.ids) for row in rows)
        visible = _see_own_past(visible, token_table([row.parents for row in rows], width, 0), read)
        tokens = token_table([[ids[-1] for ids in row.ids] for row in rows], width, FIRST)
        following = stepper.step(tokens, visible, strategy.width())
        read += 1
        _advance(rows, following, strategy, request)
        still_open = np.array([i for i, row in enumerate(rows) if row.ids], dtype=np.int64)
        if len(still_open) <= (1 - KEPT_DONE) * len(rows):
            stepper.select(still_open)
            rows = [rows[i] for i in still_open]
            visible = None if visible is None else visible[still_open]
    for index, sentence in enumerate(sentences):
        if not sentence.finished:
            raise ValueError(f"sentence {index} has no hypothesis whose probability is a number above 0")
    return [strategy.ranked(sentence.finished, request) for sentence in sentences]


def _advance(rows: Sequence[Candidates], following: NextTokens, strategy: Stepwise, request: Request) -> None:
    """Continue all hypotheses by one token, and close the sentences that are done."""
    choices = strategy.choose(following, rows)
    for index, row in enumerate(rows):
        if not row.ids:
            continue
        if row.length + 1 >= row.limit:
            ends = zip(row.scores, following.end[index].tolist(), strict=False)
            choices[index] = [Choice(q, LAST, score + end) for q, (score, end) in enumerate(ends)]
        row.extend([choice for choice in choices[index] if choice.score > -math.inf])
        if row.ids and strategy.done(row, request):
            row.close()


def _padded_scores(sentences: Sequence[Candidates], following: NextTokens) -> np.ndarray:
    """Return `[B, Q]`; -inf stands for hypotheses that do not exist."""
    width = following.tokens.shape[1]
    rows = [[*row.scores, *[-math.inf] * (width - len(row.scores))] for row in sentences]
    return np.array(rows, dtype=following.log_probs.dtype)


def _see_own_past(
    visible: Bool[np.ndarray, "B P S"] | None, parents: Int64[np.ndarray, "B Q"], read: int
) -> Bool[np.ndarray, "B Q T"] | None:
    """Each hypothesis sees itself and what its parent saw; None as long as all is seen."""
    batch, width = parents.shape
    if visible is None:
        if width == 1:
            return None
        visible = np.ones((batch, 1, read), dtype=bool)
    past = np.take_along_axis(visible, parents[:, :, None], 1)
    itself = np.broadcast_to(np.eye(width, dtype=bool), (batch, width, width))
    return np.concatenate([past, itself], 2)


def token_table(rows: Sequence[Sequence[int]], width: int, filler: int) -> Int64[np.ndarray, "R W"]:
    """Rows of one width; the filler stands for hypotheses that do not exist."""
    return np.array([[*row, *[filler] * (width - len(row))] for row in rows], dtype=np.int64)


def length_limits(most: int, sources: Sources, request: Request) -> list[int]:
    """Return the greatest length of each translation, bos and eos included, never more than `most`."""
    limits = request.limits([2 * len(source) + MORE_THAN_SOURCE for source in sources])
    if min(limits, default=2) < 2:
        raise DecodingError(f"max_length must be at least 2, for bos and eos, got {request.max_length}")
    return [min(limit, most) for limit in limits]


def _hypothesis(end: Finished) -> Hypothesis:
    return Hypothesis(end.ids, end.score, tuple(range(len(end.ids))))
