"""Decoding token by token: beam search, of which greedy search is the narrowest, and sampling."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

KEPT_DONE = 0.25


class Stepper(ABC):
    """A network that reads tokens and remembers them."""

    device: torch.device

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, "B Q"], visible: Bool[Tensor, "B Q S"] | None
    ) -> Float[Tensor, "B Q V"]:
        """Read one more token of each of Q hypotheses, and return log-probabilities of the next ones.

        `visible[b, q]` marks the tokens of hypothesis q among all S that sentence b has read, the new ones
        last; None: all of them.
        """

    @abstractmethod
    def select(self, rows: Int[Tensor, "R"]) -> None:
        """Forget all sentences but these."""


@dataclass(frozen=True)
class Ends:
    """How sentences begin and end, and what never stands in them."""

    first: int
    last: int
    banned: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finished:
    """A whole sentence, first and last token included, and its log-probability."""

    ids: tuple[int, ...]
    score: float

    def normalised_score(self, length_penalty: float) -> float:
        """`score / L^α`, where L counts all tokens."""
        return float(self.score / len(self.ids) ** length_penalty)


@dataclass(frozen=True)
class Choice:
    """A continuation: which open hypothesis, by what token, and the log-probability of both."""

    parent: int
    token: int
    score: float


@dataclass
class Candidates:
    """The hypotheses of one sentence: those that may go on, all of one length, and those that ended.

    `parents` says which hypothesis of the step before each open one continues.
    """

    limit: int
    ids: list[tuple[int, ...]]
    scores: list[float]
    parents: list[int]
    finished: list[Finished] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of tokens of the open hypotheses."""
        return len(self.ids[0])

    def extend(self, choices: Sequence[Choice], last: int) -> None:
        """Continue by these choices; what is not chosen is forgotten."""
        ends = [choice for choice in choices if choice.token == last]
        self.finished += [Finished((*self.ids[end.parent], last), end.score) for end in ends]
        going = [choice for choice in choices if choice.token != last]
        self.ids = [(*self.ids[choice.parent], choice.token) for choice in going]
        self.scores = [choice.score for choice in going]
        self.parents = [choice.parent for choice in going]

    def close(self) -> None:
        """Forget the open hypotheses."""
        self.ids, self.scores, self.parents = [], [], []


class Strategy(ABC):
    """Which continuations to follow."""

    @abstractmethod
    def choose(
        self, log_probs: Float[Tensor, "B Q V"], scores: Float[Tensor, "B Q"], last: int
    ) -> list[list[Choice]]:
        """Return continuations of each sentence's hypotheses; a score of -inf marks what is not there."""

    @abstractmethod
    def done(self, sentence: Candidates) -> bool:
        """Whether a sentence with open hypotheses needs no more steps."""

    @abstractmethod
    def result(self, finished: list[Finished]) -> list[Finished]:
        """Put what was found in order."""


@dataclass(frozen=True)
class BeamSearch(Strategy):
    """Follow the `size` best hypotheses; size 1 is greedy search.

    In each step all continuations of a sentence's open hypotheses are ranked by log-probability. Those among
    the first `size` that end are finished; the first `size` that do not end stay open. A sentence is done
    when `size` hypotheses have finished, or when no open one can still take the first place: its score can
    only fall, so at best it keeps it up to the length that suits it best. Up to `size` finished hypotheses
    are returned, best `score / L^length_penalty` first, where L counts the first and the last token too.
    """

    size: int
    length_penalty: float

    def choose(
        self, log_probs: Float[Tensor, "B Q V"], scores: Float[Tensor, "B Q"], last: int
    ) -> list[list[Choice]]:
        """Return the best continuations: at most `size` that end and `size` that do not."""
        width = min(2 * self.size, log_probs.shape[2])
        of_each, tokens = log_probs.topk(width, dim=2)
        totals = (of_each + scores.unsqueeze(2)).flatten(1)
        best, places = totals.topk(min(2 * self.size, totals.shape[1]), dim=1)
        best_tokens = tokens.flatten(1).gather(1, places)
        rows = zip((places // width).tolist(), best_tokens.tolist(), best.tolist(), strict=True)
        return [self._cut(list(map(Choice, *row)), last) for row in rows]

    def _cut(self, ranked: list[Choice], last: int) -> list[Choice]:
        possible = [choice for choice in ranked if choice.score > -math.inf]
        ends = [choice for choice in possible[: self.size] if choice.token == last]
        return ends + [choice for choice in possible if choice.token != last][: self.size]

    def done(self, sentence: Candidates) -> bool:
        """Whether enough have finished, or no open one can take the first place."""
        if len(sentence.finished) >= self.size:
            return True
        if not sentence.finished:
            return False
        best_length = sentence.limit if self.length_penalty >= 0 else sentence.length + 1
        hope: float = max(sentence.scores) / best_length**self.length_penalty
        return hope <= max(end.normalised_score(self.length_penalty) for end in sentence.finished)

    def result(self, finished: list[Finished]) -> list[Finished]:
        """Return the best ones, best first."""
        ranked = sorted(finished, key=lambda end: end.normalised_score(self.length_penalty), reverse=True)
        return ranked[: self.size]


@dataclass(frozen=True)
class Sampling(Strategy):
    """Draw one sentence, token by token; without a generator, torch's own is used."""

    generator: torch.Generator | None = None

    def choose(
        self, log_probs: Float[Tensor, "B Q V"], scores: Float[Tensor, "B Q"], last: int
    ) -> list[list[Choice]]:
        """Draw a continuation of each hypothesis."""
        chances = log_probs.double().exp().flatten(0, 1)
        drawn = torch.multinomial(chances, 1, generator=self.generator).view(scores.shape)
        totals = scores + log_probs.gather(2, drawn.unsqueeze(2)).squeeze(2)
        return [
            [Choice(q, token, score) for q, (token, score) in enumerate(zip(*row, strict=True))]
            for row in zip(drawn.tolist(), totals.tolist(), strict=True)
        ]

    def done(self, sentence: Candidates) -> bool:
        """Return False: what is open must end by itself."""
        return False

    def result(self, finished: list[Finished]) -> list[Finished]:
        """Return all as they are."""
        return finished


@torch.inference_mode()
def decode(stepper: Stepper, limits: Sequence[int], strategy: Strategy, ends: Ends) -> list[list[Finished]]:
    """Decode a batch of sentences of at most `limits` tokens each, `ends.first` and `ends.last` included.

    A hypothesis that has come to the limit less one ends there, whatever that costs. Scores are the network's
    own log-probabilities: banned tokens are left out, but their share is not given to the others.
    """
    sentences = [Candidates(limit, [(ends.first,)], [0.0], [0]) for limit in limits]
    banned = torch.tensor(ends.banned, dtype=torch.int64, device=stepper.device)
    rows, visible, read = sentences, None, 0
    while rows:
        width = max(len(row.ids) for row in rows)
        visible = _see_own_past(
            visible, _table([row.parents for row in rows], width, 0, stepper.device), read
        )
        tokens = [[ids[-1] for ids in row.ids] for row in rows]
        log_probs = stepper.step(_table(tokens, width, ends.first, stepper.device), visible)
        read += 1
        log_probs.index_fill_(2, banned, -math.inf)
        _advance(rows, log_probs, strategy, ends.last)
        still_open = [i for i, row in enumerate(rows) if row.ids]
        if len(still_open) <= (1 - KEPT_DONE) * len(rows):
            kept = torch.tensor(still_open, dtype=torch.int64, device=stepper.device)
            stepper.select(kept)
            rows = [rows[i] for i in still_open]
            visible = None if visible is None else visible.index_select(0, kept)
    for index, sentence in enumerate(sentences):
        if not sentence.finished:
            raise ValueError(f"sentence {index} has no hypothesis whose probability is a number above 0")
    return [strategy.result(sentence.finished) for sentence in sentences]


def _advance(
    rows: list[Candidates], log_probs: Float[Tensor, "B Q V"], strategy: Strategy, last: int
) -> None:
    """Continue all hypotheses by one token, and close the sentences that are done."""
    padded = [[*row.scores, *[-math.inf] * (log_probs.shape[1] - len(row.scores))] for row in rows]
    scores = log_probs.new_tensor(padded)
    choices = strategy.choose(log_probs, scores, last)
    for index, row in enumerate(rows):
        if not row.ids:
            continue
        if row.length + 1 >= row.limit:
            totals = (scores[index] + log_probs[index, :, last])[: len(row.ids)].tolist()
            choices[index] = [Choice(q, last, total) for q, total in enumerate(totals)]
        row.extend([choice for choice in choices[index] if choice.score > -math.inf], last)
        if row.ids and strategy.done(row):
            row.close()


def _see_own_past(
    visible: Bool[Tensor, "B P S"] | None, parents: Int[Tensor, "B Q"], read: int
) -> Bool[Tensor, "B Q T"] | None:
    """Each hypothesis sees itself and what its parent saw; None as long as all is seen."""
    batch, width = parents.shape
    if visible is None:
        if width == 1:
            return None
        visible = torch.ones(batch, 1, read, dtype=torch.bool, device=parents.device)
    past = visible.gather(1, parents.unsqueeze(2).expand(-1, -1, visible.shape[2]))
    itself = torch.eye(width, dtype=torch.bool, device=parents.device).expand(batch, -1, -1)
    return torch.cat([past, itself], 2)


def _table(
    rows: Sequence[Sequence[int]], width: int, filler: int, device: torch.device
) -> Int[Tensor, "R W"]:
    """Rows of one width; the filler stands for hypotheses that are not there."""
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows], device=device)
