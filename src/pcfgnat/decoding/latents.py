"""Strategies of latents (FlowSeq): noise becomes latents, from which all tokens follow at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.grammar.canvas import SAME_LENGTH
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Latents, LatentsReader, Sources
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class LatentGreedy(Strategy):
    """The best token at each position of the most probable length, from the latents of no noise."""

    name = "greedy"
    protocol = Latents

    def decode(self, runtime: Latents, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the one translation of each sentence."""
        if not sources:
            return []
        reader = runtime.read_latents(sources)
        lengths = best_lengths(reader, runtime, sources, request)
        noise = np.zeros((len(sources), int(lengths.max()), reader.width))
        limits = request.limits([runtime.max_latents + 1] * len(sources))
        return [[one] for one in _written(reader, lengths, noise, limits)]


@dataclass(frozen=True)
class LatentSample(Strategy):
    """Draws of latents, and the best tokens of each.

    temperature: deviation of the noise that latents are made of
    """

    temperature: float = 1.0

    name = "sample"
    protocol = Latents
    draws = True

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise DecodingError(f"temperature must be positive, got {self.temperature}")

    def decode(self, runtime: Latents, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return `request.results` draws, in the order drawn."""
        if not sources:
            return []
        reader = runtime.read_latents(sources)
        lengths = best_lengths(reader, runtime, sources, request)
        limits = request.limits([runtime.max_latents + 1] * len(sources))
        generators, found = request.generators(sources), list[list[Hypothesis]]()
        for _ in range(request.results):
            noise = np.zeros((len(sources), int(lengths.max()), reader.width))
            for row, length, generator in zip(noise, lengths.tolist(), generators, strict=True):
                row[:length] = self.temperature * generator.normal(size=(length, reader.width))
            found.append(_written(reader, lengths, noise, limits))
        return [list(own) for own in zip(*found, strict=True)]


def best_lengths(
    reader: LatentsReader, runtime: Latents, sources: Sources, request: Request
) -> Int64[np.ndarray, "B"]:
    """Return the most probable number of positions of each sentence, of those that exist and are allowed."""
    limits = request.limits([runtime.max_latents + 1] * len(sources))
    chosen = []
    for scores, source, limit in zip(reader.length_log_probs(), sources, limits, strict=True):
        lengths = len(source) + np.arange(len(scores)) - SAME_LENGTH
        most = max(min(limit - 1, runtime.max_latents), reader.multiple)
        possible = (lengths % reader.multiple == 0) & (lengths > 0) & (lengths <= most)
        best = int(np.where(possible, scores, -np.inf).argmax())
        chosen.append(int(lengths[best]) if possible[best] else reader.multiple)
    return np.array(chosen, dtype=np.int64)


def _written(
    reader: LatentsReader,
    lengths: Int64[np.ndarray, "B"],
    noise: Float[np.ndarray, "B n d"],
    limits: Sequence[int],
) -> list[Hypothesis]:
    scores, tokens = reader.write(np.arange(len(lengths)), lengths, noise)
    rows = zip(scores.tolist(), tokens.tolist(), lengths.tolist(), limits, strict=True)
    return [_cut(score[:length], ids[:length], limit) for score, ids, length, limit in rows]


def _cut(scores: Sequence[float], ids: Sequence[int], limit: int) -> Hypothesis:
    """Return the sentence up to the first eos; where there is none, eos has no node."""
    eos = SPECIAL_TOKENS.eos
    words = min(ids.index(eos) if eos in ids else len(ids), max(limit - 2, 0))
    ended = words < len(ids) and ids[words] == eos
    nodes = (-1, *range(words), words if ended else -1)
    score = math.fsum(scores[: words + ended])
    return Hypothesis((SPECIAL_TOKENS.bos, *ids[:words], eos), score, nodes)
