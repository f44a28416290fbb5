"""Imputation (Chan et al. 2020; Saharia et al. 2020): each pass commits the most certain slots, for good."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.collapse import framed
from pcfgnat.decoding.refinement import MASK, Draft, Pass, Policy, least, refine
from pcfgnat.grammar.collapse import collapsed
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import FramesReader, OpenFrames, Sources
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class CommitMostCertain(Policy):
    """Of m slots, each of T passes commits the `⌈m / T⌉` that are most certain, among those still open.

    blocks: instead, each pass commits the most certain open slot of every T consecutive ones
    """

    iterations: int
    blocks: bool = False

    @property
    def passes(self) -> int:
        """T."""
        return self.iterations

    def replaced(self, draft: Draft, scores: Float[np.ndarray, "R M"]) -> Bool[np.ndarray, "R M"]:
        """Return the slots that are committed; of equally certain ones the first."""
        if self.blocks:
            return _best_of_blocks(scores, draft.masked, self.iterations)
        counts = -(-draft.inner.sum(1) // self.iterations)
        return least(-scores, draft.masked, counts)

    def masked(self, draft: Draft) -> Bool[np.ndarray, "R M"]:
        """Return the slots that are still open."""
        still_open: np.ndarray = draft.masked & ~draft.replaced
        return still_open

    def done(self, draft: Draft) -> Bool[np.ndarray, "R"]:
        """Return the rows without an open slot."""
        return np.logical_not(draft.masked.any(1))


@dataclass(frozen=True)
class Imputation(Strategy):
    """Slots are committed to their best token or blank pass by pass, each given those committed before.

    The score is that of all slots, each when it was committed.

    iterations: passes of the decoder, at most; one is the same as `greedy`
    blocks:     commit one slot of every block of `iterations` consecutive ones in each pass, instead of the
                most certain ones of the whole canvas
    """

    iterations: int = 8
    blocks: bool = False

    name = "imputation"
    protocol = OpenFrames

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise DecodingError(f"iterations must be at least 1, got {self.iterations}")

    def decode(self, runtime: OpenFrames, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation of each sentence; a limit of its length is not respected."""
        if not sources:
            return []
        blank = runtime.framing.blank
        assert blank is not None
        reader = runtime.read_frames(sources)
        lengths = reader.canvas_lengths
        inner = np.arange(int(lengths.max())) < lengths[:, None]
        policy = CommitMostCertain(self.iterations, self.blocks)
        found = refine(np.full(inner.shape, MASK), lengths, inner, _passes_of(reader, lengths), policy)
        translations = []
        for row, length in enumerate(lengths.tolist()):
            tokens, scores = found.tokens[row, :length].tolist(), found.scores[row, :length].tolist()
            steps = [[blank if t == MASK else t for t in ids] for ids in found.steps(row, length)]
            passes = tuple(framed(collapsed([], ids, blank)).ids for ids in steps)
            translations.append([replace(framed(collapsed(scores, tokens, blank)), passes=passes)])
        return translations


def _passes_of(reader: FramesReader, lengths: Int64[np.ndarray, "B"]) -> Pass:
    """Return what runs the decoder over some of the sentences."""

    def run(
        rows: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        visible: Bool[np.ndarray, "R M M"] | None,
    ) -> tuple[Float[np.ndarray, "R M"], Int64[np.ndarray, "R M"]]:
        assert visible is None  # open slots are those of the canvas
        sizes = lengths[rows]
        scores, tokens = np.full(canvas.shape, -np.inf), np.zeros_like(canvas)
        for row, slots in enumerate(reader.fill(rows, _with_ends(canvas, sizes), sizes)):
            scores[row, : sizes[row]], tokens[row, : sizes[row]] = slots.best()
        return scores, tokens

    return run


def _with_ends(canvas: Int64[np.ndarray, "R M"], lengths: Int64[np.ndarray, "R"]) -> Int64[np.ndarray, "R M"]:
    """Put bos and eos at the ends of canvases where those are open, as on empty ones."""
    place, last = np.arange(canvas.shape[1]), lengths[:, None] - 1
    ends = np.where(place == last, SPECIAL_TOKENS.eos, np.where(place == 0, SPECIAL_TOKENS.bos, MASK))
    return np.where(canvas == MASK, ends, canvas)


def _best_of_blocks(
    scores: Float[np.ndarray, "R M"], opened: Bool[np.ndarray, "R M"], size: int
) -> Bool[np.ndarray, "R M"]:
    """Mark the open slot of greatest score in every block of so many consecutive slots."""
    rows, width = scores.shape
    padding = ((0, 0), (0, -width % size))
    values, among = (np.pad(table, padding).reshape(-1, size) for table in (-scores, opened))
    best = least(values, among, np.ones(len(among), dtype=np.int64))
    return best.reshape(rows, -1)[:, :width]
