"""BLEU of a model on the validation set."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pcfgnat.networks import Model
from pcfgnat.structures import Padded, Search
from pcfgnat.text import Prepared, padded
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
        self._sources = [np.asarray(corpus[index][0], np.int64) for index in range(count)]
        self._references = prepared.raw("valid")[1][:count]
        self._tokenizer = prepared.tokenizer
        self._batch = config.batch
        automatic = "zh" if language.lower().startswith(("zh", "chin")) else "13a"
        self._tokenize = automatic if config.tokenize == "auto" else config.tokenize
        self._seed = seed
        self.bleu([""], [""])  # now, rather than after hours

    def run(
        self, model: Model, search: Search, workers: Workers, stopped: Callable[[], bool]
    ) -> Scores | None:
        """Score a model in float32, each process a share of the batches; none if `stopped` says so to any.

        Training's random numbers stay the same.
        """
        start = time.monotonic()
        was_training = model.training
        model.eval()
        try:
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                own = self._share(model, search, workers, stopped)
        finally:
            model.train(was_training)
        found = workers.gathered(own)
        if None in found:
            return None
        texts = [text for _, text in sorted(pair for pairs in found for pair in pairs)]
        bleu, ratio = self.bleu(texts, self._references)
        return Scores(bleu, ratio, len(texts), time.monotonic() - start)

    def _share(
        self, model: Model, search: Search, workers: Workers, stopped: Callable[[], bool]
    ) -> list[tuple[int, str]] | None:
        """Translate every batch that falls to this process: places and texts."""
        device = next(model.parameters()).device
        order = sorted(range(len(self._sources)), key=lambda index: len(self._sources[index]))
        found: list[tuple[int, str]] = []
        for first in range(0, len(order), self._batch)[workers.rank :: workers.size]:
            if stopped():
                return None
            torch.manual_seed(self._seed + first)  # for strategies that draw
            places = order[first : first + self._batch]
            found += zip(places, self._translated(model, search, device, places), strict=True)
        return found

    def bleu(self, texts: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
        """Return sacreBLEU's score and the ratio of lengths."""
        try:
            import sacrebleu
        except ImportError as error:
            raise TrainingError("validation needs sacrebleu: pip install 'pcfgnat[train]'") from error
        score = sacrebleu.corpus_bleu(list(texts), [list(references)], tokenize=self._tokenize)
        return float(score.score), score.sys_len / max(score.ref_len, 1)

    def _translated(
        self, model: Model, search: Search, device: torch.device, places: Sequence[int]
    ) -> list[str]:
        limit = model.max_source_length
        sources = [self._sources[place] for place in places]
        sources = [np.append(ids[: limit - 1], ids[-1:]) if len(ids) > limit else ids for ids in sources]
        ids, lengths = (torch.from_numpy(array).to(device) for array in padded(sources))
        found = model.translate(Padded(ids, lengths), search)
        return [self._tokenizer.decode(hypotheses[0].ids) if hypotheses else "" for hypotheses in found]
