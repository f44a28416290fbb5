"""Strategies of slots that collapse (CTC): repeats, then blanks are dropped."""

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.grammar.collapse import beamed, collapsed
from pcfgnat.grammar.decoding import draw_rows
from pcfgnat.grammar.prefix_beam import PrefixBeam
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Frames, SlotScores, Sources
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class Collapse(Strategy):
    """One pass, then each sentence by itself."""

    protocol = Frames

    @abstractmethod
    def sentences(
        self, slots: SlotScores, blank: int, limit: int, request: Request, generator: np.random.Generator
    ) -> list[Hypothesis]:
        """Return translations without bos and eos, of at most `limit` tokens where that can be asked for."""

    def decode(self, runtime: Frames, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return what is found of each sentence, with bos and eos, which no slot emits: their node is -1."""
        blank = runtime.framing.blank
        assert blank is not None
        limits = request.limits([2 * len(source) for source in sources])
        found: dict[int, list[Hypothesis]] = {}
        for group, frames in runtime.frames(sources):
            for index, slots in zip(group, frames, strict=True):
                limit = max(limits[index] - runtime.framing.unemitted, 0)
                (generator,) = request.generators([sources[index]])
                own = self.sentences(slots, blank, limit, request, generator)
                found[index] = [framed(hypothesis) for hypothesis in own]
        return [found[index] for index in range(len(sources))]


@dataclass(frozen=True)
class Slotwise(Collapse):
    """The best token of each slot. Slots are independent, so this is the best alignment."""

    name = "greedy"

    def sentences(
        self, slots: SlotScores, blank: int, limit: int, request: Request, generator: np.random.Generator
    ) -> list[Hypothesis]:
        """Collapse the best tokens; a limit would tie the slots together, so it is not respected."""
        scores, tokens = slots.best()
        return [collapsed(scores.tolist(), tokens.tolist(), blank)]


@dataclass(frozen=True)
class CollapsedBeam(Collapse):
    """The sentence whose alignments together are most probable, as far as `size` prefixes show."""

    size: int = 10

    name = "beam"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise DecodingError(f"size must be at least 1, got {self.size}")

    def sentences(
        self, slots: SlotScores, blank: int, limit: int, request: Request, generator: np.random.Generator
    ) -> list[Hypothesis]:
        """Search slot by slot; banned tokens have log-probability -inf already."""
        return [beamed(PrefixBeam(blank, frozenset(), self.size, limit), slots.log_probs())]


@dataclass(frozen=True)
class CollapsedSample(Collapse):
    """Draws of a token in each slot, collapsed."""

    name = "sample"
    draws = True

    def sentences(
        self, slots: SlotScores, blank: int, limit: int, request: Request, generator: np.random.Generator
    ) -> list[Hypothesis]:
        """Return `request.results` draws; the score is that of the drawn alignment."""
        log_probs = slots.log_probs()
        drawn = []
        for _ in range(request.results):
            tokens = draw_rows(log_probs, generator)
            scores = log_probs[np.arange(len(tokens)), tokens]
            drawn.append(collapsed(scores.tolist(), tokens.tolist(), blank))
        return drawn


def framed(hypothesis: Hypothesis) -> Hypothesis:
    """Return a sentence with bos and eos, which no slot emits."""
    ids = (SPECIAL_TOKENS.bos, *hypothesis.ids, SPECIAL_TOKENS.eos)
    return replace(hypothesis, ids=ids, nodes=(-1, *hypothesis.nodes, -1))
