"""Mask-Predict (Ghazvininejad et al. 2019) and its variant that predicts every token anew in each pass."""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int64

from pcfgnat.decoding.base import Request
from pcfgnat.decoding.refinement import MaskLeastCertain, Pass, Policy, refine
from pcfgnat.decoding.slots import BestOfLengths, blank_canvases, length_candidates, slot_hypothesis
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Slots, SlotsReader, Sources
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class RefinedSlots(BestOfLengths):
    """Canvases of the most probable lengths, filled pass by pass and compared by `score / L^β`.

    The score is that of the tokens between bos and eos, each when it was last predicted.

    iterations: passes of the decoder, at most
    lengths:    how many of the most probable lengths are tried
    """

    iterations: int = 10
    lengths: int = 5

    def __post_init__(self) -> None:
        self.check_settings(iterations=self.iterations, lengths=self.lengths)

    @abstractmethod
    def policy(self) -> Policy:
        """Return what happens between passes."""

    def tried(self, runtime: Slots, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return what is left after the last pass for each length."""
        reader = runtime.read(sources)
        candidates = length_candidates(reader, runtime, sources, request, self.lengths)
        sentence, canvas, lengths = blank_canvases(candidates)
        run = self.passes_of(reader, sentence, lengths)
        found = refine(canvas, lengths, inner_positions(lengths), run, self.policy())
        own: list[list[Hypothesis]] = [[] for _ in sources]
        for row, (index, length) in enumerate(zip(sentence.tolist(), lengths.tolist(), strict=True)):
            written = slot_hypothesis(found.tokens[row, :length], found.scores[row, :length])
            steps = (tuple(t for t in ids if t != SPECIAL_TOKENS.pad) for ids in found.steps(row, length))
            whole = replace(written, passes=tuple(steps))
            own[index].append(self.weighed(whole, candidates[index][length]))
        return own

    def passes_of(
        self, reader: SlotsReader, sentence: Int64[np.ndarray, "R"], lengths: Int64[np.ndarray, "R"]
    ) -> Pass:
        """Return what runs the decoder over some of the rows, each of a sentence."""

        def run(
            rows: Int64[np.ndarray, "Q"],
            canvas: Int64[np.ndarray, "Q M"],
            visible: Bool[np.ndarray, "Q M M"] | None,
        ) -> tuple[Float[np.ndarray, "Q M"], Int64[np.ndarray, "Q M"]]:
            assert visible is None  # what positions see is up to the canvas alone
            return reader.fill(sentence[rows], canvas, lengths[rows]).everywhere()

        return run


@dataclass(frozen=True)
class MaskPredict(RefinedSlots):
    """The least certain tokens are masked and predicted again; the others keep token and score."""

    name = "mask-predict"

    def policy(self) -> Policy:
        """Return the policy of Mask-Predict."""
        return MaskLeastCertain(self.iterations)


@dataclass(frozen=True)
class UpdateAll(RefinedSlots):
    """Every token is predicted again in each pass, then the least certain are masked."""

    name = "update-all"

    def policy(self) -> Policy:
        """Return the policy of SMART and CMLMC."""
        return MaskLeastCertain(self.iterations, update_all=True)


def inner_positions(lengths: Int64[np.ndarray, "R"]) -> Bool[np.ndarray, "R M"]:
    """Mark the positions between bos and eos."""
    position = np.arange(int(lengths.max(initial=0)))
    inner: np.ndarray = (position > 0) & (position < lengths[:, None] - 1)
    return inner
