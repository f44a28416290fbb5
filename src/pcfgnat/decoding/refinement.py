"""One loop for all that fills canvases again and again: policies choose what each pass sees and replaces.

Plain numpy: a pass is a function, so that every runtime, and tables in tests, can stand behind it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int64

from pcfgnat.text.special import SPECIAL_TOKENS

MASK = SPECIAL_TOKENS.unk  # what a hidden position holds, as on blank canvases


@runtime_checkable
class Pass(Protocol):
    """One run of the decoder."""

    def __call__(
        self,
        rows: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        visible: Bool[np.ndarray, "R M M"] | None,
    ) -> tuple[Float[np.ndarray, "R M"], Int64[np.ndarray, "R M"]]:
        """Return the best allowed token of each position, and first its log-probability.

        rows:    which of the rows that `refine` began with these are
        visible: `visible[r, i, j]`: whether position i sees position j; None: all do
        """


@dataclass(frozen=True, eq=False)
class Draft:
    """Rows between two passes; what stands beyond a row's end is not `inner` and counts for nothing.

    inner:    positions that are predicted, the others are fixed
    tokens:   the token of each position, MASK where none has been predicted yet
    scores:   its log-probability when it was predicted; 0 where nothing was
    masked:   positions that the next pass does not see
    replaced: positions that took what the last pass predicted
    first:    log-probabilities that the first pass found
    changed:  rows of which the last pass changed a token
    passed:   passes so far
    """

    inner: Bool[np.ndarray, "R M"]
    tokens: Int64[np.ndarray, "R M"]
    scores: Float[np.ndarray, "R M"]
    masked: Bool[np.ndarray, "R M"]
    replaced: Bool[np.ndarray, "R M"]
    first: Float[np.ndarray, "R M"]
    changed: Bool[np.ndarray, "R"]
    passed: int = 0

    @classmethod
    def start(cls, canvas: Int64[np.ndarray, "R M"], inner: Bool[np.ndarray, "R M"]) -> "Draft":
        """Return rows on which nothing is known but what is fixed."""
        nothing, nowhere = np.zeros(canvas.shape), np.zeros(canvas.shape, dtype=bool)
        tokens = np.where(inner, MASK, canvas)
        return cls(inner, tokens, nothing, inner, nowhere, nothing, np.ones(len(canvas), dtype=bool))

    @property
    def canvas(self) -> Int64[np.ndarray, "R M"]:
        """What the next pass reads."""
        return np.where(self.masked, MASK, self.tokens)

    def after(
        self,
        replaced: Bool[np.ndarray, "R M"],
        scores: Float[np.ndarray, "R M"],
        tokens: Int64[np.ndarray, "R M"],
    ) -> "Draft":
        """Return the rows with what a pass has found at some positions."""
        changed = (replaced & (tokens != self.tokens)).any(1)
        return replace(
            self,
            tokens=np.where(replaced, tokens, self.tokens),
            scores=np.where(replaced, scores, self.scores),
            replaced=replaced,
            first=np.where(self.inner, scores, 0.0) if self.passed == 0 else self.first,
            changed=changed,
            passed=self.passed + 1,
        )

    def only(self, rows: Int64[np.ndarray, "Q"], width: int) -> "Draft":
        """Return some of the rows, and so many of their positions."""
        return Draft(
            inner=self.inner[rows, :width],
            tokens=self.tokens[rows, :width],
            scores=self.scores[rows, :width],
            masked=self.masked[rows, :width],
            replaced=self.replaced[rows, :width],
            first=self.first[rows, :width],
            changed=self.changed[rows],
            passed=self.passed,
        )


class Policy(ABC):
    """What to do between passes: a frozen value, asked about all rows that are not done yet."""

    @property
    @abstractmethod
    def passes(self) -> int:
        """The greatest number of passes."""

    @abstractmethod
    def replaced(self, draft: Draft, scores: Float[np.ndarray, "R M"]) -> Bool[np.ndarray, "R M"]:
        """Return the inner positions that take what a pass found with these log-probabilities."""

    @abstractmethod
    def masked(self, draft: Draft) -> Bool[np.ndarray, "R M"]:
        """Return the inner positions that the next pass does not see."""

    @abstractmethod
    def done(self, draft: Draft) -> Bool[np.ndarray, "R"]:
        """Return the rows that need no further pass; `draft.masked` is what that would not see."""

    def visible(self, draft: Draft) -> Bool[np.ndarray, "R M M"] | None:
        """Return what each position sees in the next pass, where that differs between positions."""
        return None


@dataclass(frozen=True, eq=False)
class Refined:
    """What a refinement arrives at.

    history: tokens after each pass, those of rows that were done earlier as they were
    passes:  how many passes each row took part in
    """

    tokens: Int64[np.ndarray, "R M"]
    scores: Float[np.ndarray, "R M"]
    history: Int64[np.ndarray, "T R M"]
    passes: Int64[np.ndarray, "R"]

    def steps(self, row: int, length: int) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of a row after each of its passes."""
        own = self.history[: self.passes[row], row, :length].tolist()
        return tuple(tuple(tokens) for tokens in own)


def refine(
    canvas: Int64[np.ndarray, "R M"],
    lengths: Int64[np.ndarray, "R"],
    inner: Bool[np.ndarray, "R M"],
    run: Pass,
    policy: Policy,
) -> Refined:
    """Fill the inner positions of rows pass by pass; rows that are done leave the batch."""
    draft = Draft.start(canvas, inner)
    tokens, scores = draft.tokens.copy(), draft.scores.copy()
    history, passes = [], np.zeros(len(canvas), dtype=np.int64)
    rows = np.flatnonzero(inner.any(1))
    draft = _shortened(draft, rows, lengths[rows])
    while len(rows) and draft.passed < policy.passes:
        found, best = run(rows, draft.canvas, policy.visible(draft))
        replaced = policy.replaced(draft, found) & draft.inner
        draft = draft.after(replaced, found.astype(np.float64), best)
        width = draft.tokens.shape[1]
        tokens[rows, :width], scores[rows, :width] = draft.tokens, draft.scores
        history.append(tokens.copy())
        passes[rows] = draft.passed
        draft = replace(draft, masked=policy.masked(draft) & draft.inner)
        kept = np.flatnonzero(~policy.done(draft))
        rows = rows[kept]
        draft = _shortened(draft, kept, lengths[rows])
    return Refined(tokens, scores, np.array(history).reshape(-1, *canvas.shape), passes)


def least(
    scores: Float[np.ndarray, "R M"], among: Bool[np.ndarray, "R M"], counts: Int64[np.ndarray, "R"]
) -> Bool[np.ndarray, "R M"]:
    """Mark so many positions of least score in each row, among some; of equal ones those that come first."""
    order = np.lexsort((scores, ~among))
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(scores.shape[1])[None], 1)
    return among & (rank < counts[:, None])


@dataclass(frozen=True)
class MaskLeastCertain(Policy):
    """Of n tokens, `max(1, ⌊n (T - t) / T⌋)` of least score are hidden after t of T passes.

    update_all: whether tokens that a pass sees are predicted anew too, or keep token and score
    """

    iterations: int
    update_all: bool = False

    @property
    def passes(self) -> int:
        """T."""
        return self.iterations

    def replaced(self, draft: Draft, scores: Float[np.ndarray, "R M"]) -> Bool[np.ndarray, "R M"]:
        """Return what the pass did not see, or everything."""
        return draft.inner if self.update_all else draft.masked

    def masked(self, draft: Draft) -> Bool[np.ndarray, "R M"]:
        """Return the tokens of least score."""
        remaining = self.iterations - draft.passed
        counts = np.maximum(draft.inner.sum(1) * remaining // self.iterations, 1)
        return least(draft.scores, draft.inner, counts)

    def done(self, draft: Draft) -> Bool[np.ndarray, "R"]:
        """Return rows of one token, which no pass would see anything new of."""
        single: np.ndarray = draft.inner.sum(1) <= 1
        return single


def _shortened(draft: Draft, rows: Int64[np.ndarray, "Q"], lengths: Int64[np.ndarray, "Q"]) -> Draft:
    return draft.only(rows, int(lengths.max(initial=0)))
