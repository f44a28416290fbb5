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
        return [[one] for one in written(reader, np.arange(len(sources)), lengths, noise, limits)]


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
        check_temperature(self.temperature)

    def decode(self, runtime: Latents, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return `request.results` draws, in the order drawn."""
        if not sources:
            return []
        reader = runtime.read_latents(sources)
        lengths = best_lengths(reader, runtime, sources, request)
        limits = request.limits([runtime.max_latents + 1] * len(sources))
        count, width = request.results, reader.width
        noise = np.zeros((len(sources), count, int(lengths.max()), width))
        for own, length, generator in zip(noise, lengths.tolist(), request.generators(sources), strict=True):
            for draw in own:
                draw[:length] = self.temperature * generator.normal(size=(length, width))
        rows = np.repeat(np.arange(len(sources)), count)
        own_limits = [limits[row] for row in rows.tolist()]
        found = written(reader, rows, lengths[rows], noise.reshape(len(rows), -1, width), own_limits)
        return [found[first : first + count] for first in range(0, len(rows), count)]


def check_temperature(temperature: float) -> None:
    """Raise an error unless this is the deviation of some noise."""
    if not 0 < temperature < math.inf:
        raise DecodingError(f"temperature must be positive, got {temperature}")


def latent_lengths(
    reader: LatentsReader, runtime: Latents, sources: Sources, request: Request, count: int
) -> list[dict[int, float]]:
    """Return the most probable numbers of positions of each sentence, with log-probabilities, best first.

    They are among those that exist and are allowed; if there is none, it is the least that exists.
    """
    limits = request.limits([runtime.max_latents + 1] * len(sources))
    found = []
    for scores, source, limit in zip(reader.length_log_probs(), sources, limits, strict=True):
        lengths = len(source) + np.arange(len(scores)) - SAME_LENGTH
        most = max(min(limit - 1, runtime.max_latents), reader.multiple)
        possible = (lengths % reader.multiple == 0) & (lengths > 0) & (lengths <= most)
        ranked = np.argsort(np.where(possible, -scores, np.inf), kind="stable")[:count]
        own = {int(lengths[i]): float(scores[i]) for i in ranked.tolist() if possible[i]}
        found.append(own or {reader.multiple: 0.0})
    return found


def best_lengths(
    reader: LatentsReader, runtime: Latents, sources: Sources, request: Request
) -> Int64[np.ndarray, "B"]:
    """Return the most probable number of positions of each sentence."""
    found = latent_lengths(reader, runtime, sources, request, 1)
    return np.array([next(iter(own)) for own in found], dtype=np.int64)


def written(
    reader: LatentsReader,
    sentence: Int64[np.ndarray, "R"],
    lengths: Int64[np.ndarray, "R"],
    noise: Float[np.ndarray, "R n d"],
    limits: Sequence[int],
) -> list[Hypothesis]:
    """Return what is written from rows of noise, each of a sentence, with so many positions."""
    scores, tokens = reader.write(sentence, lengths, noise)
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
