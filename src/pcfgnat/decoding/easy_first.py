"""Parallel easy-first (Kasai et al. 2020): each token is predicted from those that were more certain."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64

from pcfgnat.decoding.masked import RefinedSlots
from pcfgnat.decoding.refinement import Draft, Pass, Policy
from pcfgnat.runtimes.base import SlotsReader, VisibleSlots, VisibleSlotsReader


@dataclass(frozen=True)
class SeeMoreCertain(Policy):
    """Every token is predicted anew from the last pass's tokens at positions that come before it in order.

    The order is that of the log-probabilities of the first pass, greatest first, and never changes. What does
    not change any more is what predicting one token after the other in that order would give.
    """

    iterations: int

    @property
    def passes(self) -> int:
        """The first, which sees nothing, included."""
        return self.iterations

    def replaced(self, draft: Draft, scores: Float[np.ndarray, "R M"]) -> Bool[np.ndarray, "R M"]:
        """Return all positions."""
        return draft.inner

    def masked(self, draft: Draft) -> Bool[np.ndarray, "R M"]:
        """Return no position: what each sees is decided by `visible`."""
        return np.zeros_like(draft.inner)

    def done(self, draft: Draft) -> Bool[np.ndarray, "R"]:
        """Return the rows of which nothing has changed."""
        return ~draft.changed

    def visible(self, draft: Draft) -> Bool[np.ndarray, "R M M"]:
        """Return the more certain positions, of equally certain ones those before; at first none."""
        rows, width = draft.inner.shape
        if draft.passed == 0:
            return np.zeros((rows, width, width), dtype=bool)
        order = np.lexsort((-draft.first, ~draft.inner))
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(width)[None], 1)
        earlier: np.ndarray = (rank[:, None, :] < rank[:, :, None]) & draft.inner[:, None, :]
        return earlier


@dataclass(frozen=True)
class EasyFirst(RefinedSlots):
    """Each token is predicted from the more certain ones of the last pass, until none changes."""

    name = "easy-first"
    protocol = VisibleSlots

    def policy(self) -> Policy:
        """Return the policy of DisCo."""
        return SeeMoreCertain(self.iterations)

    def passes_of(
        self, reader: SlotsReader, sentence: Int64[np.ndarray, "R"], lengths: Int64[np.ndarray, "R"]
    ) -> Pass:
        """Return what runs the decoder over some of the rows, each of a sentence."""
        assert isinstance(reader, VisibleSlotsReader)

        def run(
            rows: Int64[np.ndarray, "Q"],
            canvas: Int64[np.ndarray, "Q M"],
            visible: Bool[np.ndarray, "Q M M"] | None,
        ) -> tuple[Float[np.ndarray, "Q M"], Int64[np.ndarray, "Q M"]]:
            assert visible is not None
            return reader.fill_visible(sentence[rows], canvas, lengths[rows], visible).everywhere()

        return run
