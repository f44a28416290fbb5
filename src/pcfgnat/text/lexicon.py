"""Learning a shortlist: the most probable translations of a source type by IBM model 1 (Brown et al. 1993).

Memory is bounded whatever the corpus: a sample of the pairs is read, and only the target types that stand
most often opposite to a source type are asked how probable they are. Begin of sentence stands in every
source, and so takes the part of the model's empty word.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from pcfgnat.progress import progress_bar
from pcfgnat.text.corpus import ParallelCorpus
from pcfgnat.text.lines import TextError
from pcfgnat.text.shortlist import PLAIN, Shortlist
from pcfgnat.text.tokenizer import Tokenizer

CHUNK_PAIRS = 20_000
MOST_KEYS = 30_000_000  # pairs of types that are counted; when there are more, those seen once are forgotten
LEAST_CHANCE = 1e-4


@dataclass(frozen=True)
class LexiconSettings:
    """How much to learn.

    best:       translations of each source type
    frequent:   target types that are always looked at
    pairs:      sentence pairs to learn from, spread over the corpus
    iterations: of expectation and maximisation
    """

    best: int = 60
    frequent: int = 400
    pairs: int = 200_000
    iterations: int = 4

    def __post_init__(self) -> None:
        for name in ("best", "frequent", "pairs", "iterations"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


@dataclass
class _Lexicon:
    """Candidates of each source type in rising order, their rows' beginnings, and their probabilities."""

    offsets: Int64[np.ndarray, "types_and_one"]
    candidates: Int64[np.ndarray, "all"]
    chances: Float64[np.ndarray, "all"]


def learn_shortlist(corpus: ParallelCorpus, settings: LexiconSettings | None = None) -> Shortlist:
    """Learn from parallel text; the same text gives the same shortlist."""
    settings = settings or LexiconSettings()
    if not len(corpus):
        raise TextError(f"{corpus.directory} must have sentence pairs to learn a shortlist from, got none")
    chosen = np.unique(np.linspace(0, len(corpus) - 1, min(settings.pairs, len(corpus))).astype(np.int64))
    chunks = [chosen[start : start + CHUNK_PAIRS] for start in range(0, len(chosen), CHUNK_PAIRS)]
    total = len(chosen) * (1 + settings.iterations)
    with progress_bar("learning the shortlist", "pairs", total) as bar:
        lexicon, frequency = _counted(corpus, _watched(chunks, bar), 4 * settings.best)
        for _ in range(settings.iterations):
            _improve(lexicon, corpus, _watched(chunks, bar))
    frequent = np.argsort(-frequency[PLAIN:], kind="stable")[: settings.frequent] + PLAIN
    return _shortlist(lexicon, frequent, settings.best)


def _watched(chunks: list[Int64[np.ndarray, "_"]], bar: Any) -> Iterator[Int64[np.ndarray, "_"]]:
    for chunk in chunks:
        yield chunk
        bar.update(len(chunk))


def _read(corpus: ParallelCorpus, chunk: Int64[np.ndarray, "_"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return (corpus[int(index)] for index in chunk)


def _counted(
    corpus: ParallelCorpus, chunks: Iterable[Int64[np.ndarray, "_"]], most: int
) -> tuple[_Lexicon, Int64[np.ndarray, "types"]]:
    """Count in how many pairs types stand opposite each other; keep the `most` associated of each row."""
    types = corpus.vocabulary_size
    keys, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    frequency = np.zeros(types, dtype=np.int64)
    for chunk in chunks:
        found = []
        for source, target in _read(corpus, chunk):
            own, other = np.unique(source).astype(np.int64), np.unique(target).astype(np.int64)
            found.append((own[:, None] * types + other).ravel())
            frequency += np.bincount(target, minlength=types)
        keys, counts = _merged(keys, counts, np.concatenate(found))
    row, column = np.divmod(keys, types)
    present = np.zeros(types)  # pairs that have a target type: those where it stands opposite to bos
    present[column[row == Tokenizer.bos]] = counts[row == Tokenizer.bos]
    association = counts.astype(np.float64) ** 2 / np.maximum(present[column], 1)
    kept = (_ranks(row, association) < most) | (row == Tokenizer.bos)
    row, column = row[kept], column[kept]
    sizes = np.bincount(row, minlength=types)
    return _Lexicon(_offsets(sizes), column, 1.0 / sizes[row]), frequency


def _merged(
    keys: Int64[np.ndarray, "n"], counts: Int64[np.ndarray, "n"], new: Int64[np.ndarray, "_"]
) -> tuple[Int64[np.ndarray, "m"], Int64[np.ndarray, "m"]]:
    more, times = np.unique(new, return_counts=True)
    together, place = np.unique(np.concatenate([keys, more]), return_inverse=True)
    total = np.bincount(place, np.concatenate([counts, times])).astype(np.int64)
    if len(together) > MOST_KEYS:
        together, total = together[total > 1], total[total > 1]
    return together, total


def _improve(lexicon: _Lexicon, corpus: ParallelCorpus, chunks: Iterable[Int64[np.ndarray, "_"]]) -> None:
    """Expect how often each type causes each other, and make that the probabilities."""
    from pcfgnat.text.kernels import add_expected

    counts = np.zeros_like(lexicon.chances)
    for chunk in chunks:
        sources, targets = zip(*_read(corpus, chunk), strict=True)
        lengths = np.array([(len(s), len(t)) for s, t in zip(sources, targets, strict=True)])
        source, target = (np.concatenate(side).astype(np.int64) for side in (sources, targets))
        rows = (lexicon.offsets, lexicon.candidates, lexicon.chances)
        add_expected(source, target, lengths, *rows, counts)
    row = np.repeat(np.arange(len(lexicon.offsets) - 1), np.diff(lexicon.offsets))
    totals = np.bincount(row, counts, minlength=len(lexicon.offsets) - 1)
    lexicon.chances = counts / np.maximum(totals, 1e-300)[row]


def _shortlist(lexicon: _Lexicon, frequent: Int64[np.ndarray, "_"], best: int) -> Shortlist:
    types = len(lexicon.offsets) - 1
    row = np.repeat(np.arange(types), np.diff(lexicon.offsets))
    kept = (_ranks(row, lexicon.chances) < best) & (lexicon.chances >= LEAST_CHANCE) & (row >= PLAIN)
    kept &= ~np.isin(lexicon.candidates, frequent) & (lexicon.candidates >= PLAIN)
    sizes = np.bincount(row[kept], minlength=types)
    candidates = lexicon.candidates[kept].astype(np.uint32)
    return Shortlist(np.sort(frequent).astype(np.uint32), _offsets(sizes), candidates)


def _ranks(row: Int64[np.ndarray, "n"], value: Float64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
    """Rank of each entry in its row, the greatest value first; rows must rise."""
    order = np.lexsort((-value, row))
    starts = np.searchsorted(row, row[order])
    ranks = np.empty(len(row), dtype=np.int64)
    ranks[order] = np.arange(len(row)) - starts
    return ranks


def _offsets(sizes: Int64[np.ndarray, "types"]) -> Int64[np.ndarray, "types_and_one"]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
