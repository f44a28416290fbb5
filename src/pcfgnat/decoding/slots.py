"""Strategies of slots whose number is predicted: length candidates, and a token for each slot."""

import math
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.grammar.decoding import Emissions, draw_rows
from pcfgnat.grammar.lengths import LengthChooser, best_ranked, one_by_penalty
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Slots, SlotsReader, Sources
from pcfgnat.text.special import SPECIAL_TOKENS

SHORTEST = 2  # bos and eos
SHORTEST_OF_SEVERAL = 3  # an empty sentence costs nothing, and would win against every other


@dataclass(frozen=True)
class BestOfLengths(Strategy):
    """Translations of the most probable lengths, compared by `score / L^β`.

    length_weight: how often the log-probability of the length counts in the score; 0, as in the papers,
                   compares the tokens alone, which favours lengths that leave out what is uncertain
    """

    length_weight: float = field(default=0.0, kw_only=True)

    protocol = Slots
    uses_penalty = True
    switches: ClassVar[tuple[str, ...]] = ("length_weight",)

    def check_settings(self, **counts: int) -> None:
        """Raise an error unless all settings are in their range; `lengths` has that of the length head."""
        for name, value in counts.items():
            if name == "lengths" and not 1 <= value <= LENGTH_CLASSES:
                raise DecodingError(f"lengths must be in 1 … {LENGTH_CLASSES}, got {value}")
            if value < 1:
                raise DecodingError(f"{name} must be at least 1, got {value}")
        if not 0 <= self.length_weight < math.inf:
            raise DecodingError(f"length_weight must be at least 0 and finite, got {self.length_weight}")

    def weighed(self, found: Hypothesis, length_log_prob: float) -> Hypothesis:
        """Return a translation with the probability of its length in its score, as far as it counts."""
        if not self.length_weight:
            return found
        return replace(found, score=found.score + self.length_weight * length_log_prob)

    @abstractmethod
    def tried(self, runtime: Slots, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return a translation of each sentence for each length that is tried."""

    def decode(self, runtime: Slots, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the translations of the best lengths."""
        return self._chosen(runtime, sources, request, best_ranked(request.length_penalty, request.results))

    def sweep(
        self, runtime: Slots, sources: Sources, request: Request, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation under each length penalty, all from one decoding."""
        return self._chosen(runtime, sources, request, one_by_penalty(length_penalties))

    def _chosen(
        self, runtime: Slots, sources: Sources, request: Request, choose: LengthChooser
    ) -> list[list[Hypothesis]]:
        found = self.tried(runtime, sources, request) if sources else []
        sizes = [[h.nodes[-1] + 1 for h in own] for own in found]  # of the canvas, with slots left blank
        return [
            [own[i] for i in choose([h.score for h in own], size)]
            for own, size in zip(found, sizes, strict=True)
        ]


@dataclass(frozen=True)
class SlotGreedy(BestOfLengths):
    """The best token of each slot.

    lengths: how many of the most probable lengths are tried and compared by `score / L^β`
    merge:   leave out what repeats the token of the slot before
    """

    lengths: int = 1
    merge: bool = False

    name = "greedy"
    switches = (*BestOfLengths.switches, "merge")

    def __post_init__(self) -> None:
        self.check_settings(lengths=self.lengths)

    def tried(self, runtime: Slots, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return what one pass gives for each length."""
        reader = runtime.read(sources)
        candidates = length_candidates(reader, runtime, sources, request, self.lengths)
        rows = blank_canvases(candidates)
        scores, tokens = reader.fill(*rows).everywhere()
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for sentence, score, ids, length in zip(
            rows[0].tolist(), scores, tokens, rows[2].tolist(), strict=True
        ):
            one = slot_hypothesis(ids[:length], score[:length], self.merge)
            found[sentence].append(self.weighed(one, candidates[sentence][length]))
        return found


@dataclass(frozen=True)
class SlotSample(Strategy):
    """Draws of a token in each slot, at the most probable length."""

    name = "sample"
    protocol = Slots
    draws = True

    def decode(self, runtime: Slots, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return `request.results` draws, in the order drawn."""
        if not sources:
            return []
        reader = runtime.read(sources)
        rows = blank_canvases(length_candidates(reader, runtime, sources, request, 1))
        emissions, generators = reader.fill(*rows), request.generators(sources)
        return [
            [_drawn(emissions, index, length, generators[index]) for _ in range(request.results)]
            for index, length in enumerate(rows[2].tolist())
        ]


def length_candidates(
    reader: SlotsReader, runtime: Slots, sources: Sources, request: Request, count: int
) -> list[dict[int, float]]:
    """Return the lengths of the `count` most probable classes of each sentence, with log-probabilities.

    The most probable comes first. Each length is there once, with the best of the classes that led to it.
    """
    log_probs = reader.length_log_probs()
    ranked = np.argsort(-log_probs, axis=1, kind="stable")[:, :count]
    limits = request.limits([runtime.max_canvas_length] * len(sources))
    found = []
    for source, limit, classes, row in zip(sources, limits, ranked, log_probs, strict=True):
        most = max(min(limit, runtime.max_canvas_length), SHORTEST)
        least = min(SHORTEST if count == 1 else SHORTEST_OF_SEVERAL, most)
        lengths = np.clip(len(source) + classes - SAME_LENGTH, least, most).tolist()
        own: dict[int, float] = {}
        for length, log_prob in zip(lengths, row[classes].tolist(), strict=True):
            own.setdefault(length, log_prob)
        found.append(own)
    return found


def blank_canvases(
    candidates: Sequence[Collection[int]],
) -> tuple[Int64[np.ndarray, "R"], Int64[np.ndarray, "R M"], Int64[np.ndarray, "R"]]:
    """Return a canvas for each sentence and length: bos, blanks, eos; which sentence; and its length."""
    pairs = [(sentence, length) for sentence, own in enumerate(candidates) for length in own]
    sentence, lengths = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    canvas = np.full((len(pairs), int(lengths.max())), SPECIAL_TOKENS.unk, dtype=np.int64)
    canvas[:, 0] = SPECIAL_TOKENS.bos
    canvas[np.arange(len(pairs)), lengths - 1] = SPECIAL_TOKENS.eos
    return sentence, canvas, lengths


def slot_hypothesis(
    ids: Int64[np.ndarray, "n"], scores: Float[np.ndarray, "n"], merge: bool = False
) -> Hypothesis:
    """Return what the slots emit, blanks left out, and repetitions too if they are to be merged.

    The score is that of all slots between bos and eos. Those at the ends are fixed, and masked models are
    never trained to emit them.
    """
    kept = ids != SPECIAL_TOKENS.pad
    if merge:
        kept[1:] &= ids[1:] != ids[:-1]
    nodes = np.flatnonzero(kept)
    return Hypothesis(tuple(ids[nodes].tolist()), math.fsum(scores[1:-1].tolist()), tuple(nodes.tolist()))


def _drawn(emissions: Emissions, index: int, length: int, generator: np.random.Generator) -> Hypothesis:
    log_probs = emissions.log_probs(index, np.arange(length))
    ids = draw_rows(log_probs, generator)
    return slot_hypothesis(ids, log_probs[np.arange(length), ids])
