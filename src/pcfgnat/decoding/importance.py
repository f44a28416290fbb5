"""Several lengths and several latents of each (FlowSeq), ranked by their own model or by another one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.decoding.base import DecodingError, Request, Strategy
from pcfgnat.decoding.latents import check_temperature, latent_lengths, written
from pcfgnat.decoding.rescore import read_scores
from pcfgnat.grammar.canvas import LENGTH_CLASSES
from pcfgnat.grammar.lengths import LengthChooser, best_ranked, one_by_penalty
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import LatentDrafts, Latents, LatentsReader, Sources
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class Candidate:
    """A translation, the number of positions that it was written on, and the log-probability of that."""

    found: Hypothesis
    positions: int
    log_prob: float

    @property
    def tokens(self) -> list[int]:
        """What the positions emit: the words, then eos."""
        words = self.found.ids[1:-1]
        return [*words, *[SPECIAL_TOKENS.eos] * (self.positions - len(words))]


@dataclass(frozen=True)
class LatentSearch(Strategy):
    """Translations of several lengths, each from several latents, the first from those of no noise.

    lengths:     how many of the most probable numbers of positions are tried
    samples:     latents of each length
    temperature: deviation of the noise that they are made of
    """

    lengths: int = 3
    samples: int = 5
    temperature: float = 0.5

    uses_penalty = True
    draws = True

    def __post_init__(self) -> None:
        if not 1 <= self.lengths <= LENGTH_CLASSES:
            raise DecodingError(f"lengths must be in 1 … {LENGTH_CLASSES}, got {self.lengths}")
        if self.samples < 1:
            raise DecodingError(f"samples must be at least 1, got {self.samples}")
        check_temperature(self.temperature)

    def candidates(
        self,
        runtime: Latents,
        reader: LatentsReader,
        sources: Sources,
        request: Request,
        generators: Sequence[np.random.Generator],
    ) -> list[list[Candidate]]:
        """Return what is written from each of the latents, each translation of a length once."""
        limits = request.limits([runtime.max_latents + 1] * len(sources))
        tried = latent_lengths(reader, runtime, sources, request, self.lengths)
        rows = [
            (sentence, length, log_prob, limits[sentence])
            for sentence, own in enumerate(tried)
            for length, log_prob in own.items()
            for _ in range(self.samples)
        ]
        sentence, lengths = (np.array(column, dtype=np.int64) for column in list(zip(*rows, strict=True))[:2])
        noise = np.zeros((len(rows), int(lengths.max()), reader.width))
        for row, (index, length, _, _) in enumerate(rows):
            if row % self.samples:
                drawn = generators[index].normal(size=(length, reader.width))
                noise[row, :length] = self.temperature * drawn
        found = written(reader, sentence, lengths, noise, [limit for *_, limit in rows])
        kept: list[dict[tuple[int, tuple[int, ...]], Candidate]] = [{} for _ in sources]
        for one, (index, length, log_prob, _) in zip(found, rows, strict=True):
            kept[index].setdefault((length, one.ids), Candidate(one, length, log_prob))
        return [list(own.values()) for own in kept]


@dataclass(frozen=True)
class Importance(LatentSearch):
    """Candidates ranked by an estimate of their probability: importance sampling from the posterior.

    A translation of n positions scores the logarithm of the mean of `p(Y|z,X) p(z|X) / q(z|X,Y)` over draws
    of z, and the log-probability of n; both together are divided by `n^β`.

    estimates: draws of z for each candidate
    """

    estimates: int = 4

    name = "importance"
    protocol = Latents

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.estimates < 1:
            raise DecodingError(f"estimates must be at least 1, got {self.estimates}")

    def decode(self, runtime: Latents, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the best different translations of each sentence."""
        everything = best_ranked(request.length_penalty, self.lengths * self.samples)
        ranked = self._ranked(runtime, sources, request, everything)
        return [_different(own)[: request.results] for own in ranked]

    def sweep(
        self, runtime: Latents, sources: Sources, request: Request, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation under each length penalty, all from one decoding."""
        return self._ranked(runtime, sources, request, one_by_penalty(length_penalties))

    def _ranked(
        self, runtime: Latents, sources: Sources, request: Request, choose: LengthChooser
    ) -> list[list[Hypothesis]]:
        if not sources:
            return []
        reader, generators = runtime.read_latents(sources), request.generators(sources)
        found = self.candidates(runtime, reader, sources, request, generators)
        scores = iter(self._estimated(reader, found, generators).tolist())
        ranked = []
        for own in found:
            scored = [replace(one.found, score=next(scores) + one.log_prob) for one in own]
            places = choose([one.score for one in scored], [one.positions for one in own])
            ranked.append([scored[place] for place in places])
        return ranked

    def _estimated(
        self,
        reader: LatentsReader,
        found: Sequence[Sequence[Candidate]],
        generators: Sequence[np.random.Generator],
    ) -> Float[np.ndarray, "R"]:
        """Return the logarithm of the estimated probability of each candidate, given its length."""
        rows = [(index, one) for index, own in enumerate(found) for one in own]
        sentence = np.array([index for index, _ in rows], dtype=np.int64)
        lengths = np.array([one.positions for _, one in rows], dtype=np.int64)
        tokens = _table([one.tokens for _, one in rows])
        log_weights = []
        for _ in range(self.estimates):
            noise = np.zeros((*tokens.shape, reader.width))
            for own, (index, one) in zip(noise, rows, strict=True):
                own[: one.positions] = generators[index].normal(size=(one.positions, reader.width))
            log_weights.append(reader.log_weights(sentence, lengths, tokens, noise).astype(np.float64))
        return log_mean(np.array(log_weights))


@dataclass(frozen=True)
class LatentRescore(LatentSearch):
    """Candidates ranked by an autoregressive model that reads all at once (noisy parallel decoding).

    `score` is that of the reader.
    """

    name = "rescore"
    protocol = LatentDrafts

    def decode(self, runtime: LatentDrafts, sources: Sources, request: Request) -> list[list[Hypothesis]]:
        """Return the best different translations of each sentence by `score / L^β`."""
        return self._chosen(runtime, sources, request, best_ranked(request.length_penalty, request.results))

    def sweep(
        self, runtime: LatentDrafts, sources: Sources, request: Request, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation under each length penalty, all from one decoding."""
        return self._chosen(runtime, sources, request, one_by_penalty(length_penalties))

    def _chosen(
        self, runtime: LatentDrafts, sources: Sources, request: Request, choose: LengthChooser
    ) -> list[list[Hypothesis]]:
        if not sources:
            return []
        longest = min(runtime.max_latents + 1, runtime.max_target_length)
        limits = (min(limit, longest) for limit in request.limits([longest] * len(sources)))
        asked = replace(request, max_length=tuple(limits))
        reader, generators = runtime.read_latents(sources), request.generators(sources)
        found = self.candidates(runtime, reader, sources, asked, generators)
        different = [_different([one.found for one in own]) for own in found]
        chosen = []
        for own in read_scores(runtime.start(sources), different):
            scored = [replace(one, score=score) for one, score in own]
            places = choose([one.score for one in scored], [len(one.ids) for one in scored])
            chosen.append([scored[place] for place in places])
        return chosen


def log_mean(values: Float[np.ndarray, "S R"]) -> Float[np.ndarray, "R"]:
    """Return the logarithm of the mean of numbers whose logarithms are given."""
    highest = np.maximum(values.max(0), np.finfo(np.float64).min)  # -inf less -inf is not a number
    with np.errstate(divide="ignore"):
        mean: np.ndarray = highest + np.log(np.exp(values - highest).mean(0))
    return mean


def _different(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the first of those that are the same sentence."""
    kept: dict[tuple[int, ...], Hypothesis] = {}
    for one in found:
        kept.setdefault(one.ids, one)
    return list(kept.values())


def _table(rows: Sequence[Sequence[int]]) -> Int64[np.ndarray, "R n"]:
    """Return rows of tokens, filled up with eos."""
    table = np.full((len(rows), max(map(len, rows))), SPECIAL_TOKENS.eos, dtype=np.int64)
    for row, own in zip(table, rows, strict=True):
        row[: len(own)] = own
    return table
