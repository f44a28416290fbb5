"""BLEU of a network on the validation set."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding import Request, Strategy, parse_strategy
from pcfgnat.evaluation import Measures, ScoreError, measures_for
from pcfgnat.networks import Network
from pcfgnat.runtimes.base import Runtime
from pcfgnat.runtimes.torch import torch_runtime
from pcfgnat.text import Prepared
from pcfgnat.training.config import TrainingError, ValidationConfig
from pcfgnat.training.processes.workers import Workers


@dataclass(frozen=True)
class Scores:
    """What a validation found; `length_ratio` is that of all translations to all references."""

    bleu: float
    length_ratio: float
    sentences: int
    seconds: float


class Validator:
    """Translates the validation set and compares with its references."""

    def __init__(self, prepared: Prepared, config: ValidationConfig, language: str, seed: int) -> None:
        corpus = prepared.corpus("valid")
        count = min(config.sentences or len(corpus), len(corpus))
        self._sources = [corpus[index][0].tolist() for index in range(count)]
        self._references = prepared.raw("valid")[1][:count]
        self._tokenizer = prepared.tokenizer
        self._batch = config.batch
        self.measures = _measures(language, None if config.tokenize == "auto" else config.tokenize)
        self._seed = seed

    def run(
        self, network: Network, decoding: DecodingDefaults, workers: Workers, stopped: Callable[[], bool]
    ) -> Scores | None:
        """Score a network in float32, each process a share of the batches; none if `stopped` says so to any.

        Nothing is drawn from the random numbers of training.
        """
        start = time.monotonic()
        runtime = torch_runtime(network)
        strategy = parse_strategy(decoding.strategy, runtime)
        request = Request(length_penalty=decoding.length_penalty, seed=self._seed)
        own = self._share(runtime, strategy, request, workers, stopped)
        found = workers.gathered(own)
        if None in found:
            return None
        texts = [text for _, text in sorted(pair for pairs in found for pair in pairs)]
        bleu, ratio = self.measures.bleu(texts, self._references)
        return Scores(bleu, ratio, len(texts), time.monotonic() - start)

    def _share(
        self,
        runtime: Runtime,
        strategy: Strategy,
        request: Request,
        workers: Workers,
        stopped: Callable[[], bool],
    ) -> list[tuple[int, str]] | None:
        """Translate every batch that falls to this process: places and texts."""
        order = sorted(range(len(self._sources)), key=lambda index: len(self._sources[index]))
        found: list[tuple[int, str]] = []
        for first in range(0, len(order), self._batch)[workers.rank :: workers.size]:
            if stopped():
                return None
            places = order[first : first + self._batch]
            sources = [self._fitting(place, runtime.max_source_length) for place in places]
            translated = strategy.decode(runtime, sources, request)
            texts = [self._tokenizer.decode(hypotheses[0].ids) for hypotheses in translated]
            found += zip(places, texts, strict=True)
        return found

    def _fitting(self, place: int, limit: int) -> list[int]:
        """Return a source, cut if the network cannot read all of it."""
        ids = self._sources[place]
        return ids if len(ids) <= limit else [*ids[: limit - 1], ids[-1]]


def _measures(language: str, tokenize: str | None) -> Measures:
    """Return how BLEU is computed; what is missing for it is reported now rather than after hours."""
    try:
        return measures_for(language, tokenize=tokenize)
    except ScoreError as error:
        raise TrainingError(f"validation: {error}") from error
