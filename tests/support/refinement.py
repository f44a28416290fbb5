"""A stub network whose predictions depend on the whole canvas, and the refinement loop in plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.runtimes.base import Sources
from pcfgnat.structures.emissions import TensorEmissions
from pcfgnat.text.special import SPECIAL_TOKENS

VOCABULARY = 9
WORDS = range(4, VOCABULARY)
BOS, EOS, MASK = SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos, SPECIAL_TOKENS.unk


def table(source: Sequence[int], canvas: Sequence[int], levels: int = 0) -> np.ndarray:
    """Log-probabilities that follow from source and visible tokens; with few `levels` many are equal."""
    scores = np.random.default_rng([*source, 99, *canvas]).normal(size=(len(canvas), VOCABULARY))
    if levels:
        return np.round(scores * levels) / levels - 5.0
    normalised: np.ndarray = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    return normalised


@dataclass
class StubReader:
    """Remembers the rows that it filled."""

    sources: Sources
    best_lengths: Sequence[Sequence[int]]
    levels: int = 0
    filled: list[list[list[int]]] = field(default_factory=list)

    def length_log_probs(self) -> np.ndarray:
        """Let the wanted lengths be the most probable ones, in their order."""
        found = np.full((len(self.sources), LENGTH_CLASSES), -50.0)
        for row, source, best in zip(found, self.sources, self.best_lengths, strict=True):
            for rank, length in enumerate(best):
                row[length - len(source) + SAME_LENGTH] = -1.0 - rank
        return found

    def fill(self, sentence: np.ndarray, canvas: np.ndarray, lengths: np.ndarray) -> TensorEmissions:
        rows = [row[:length].tolist() for row, length in zip(canvas, lengths.tolist(), strict=True)]
        self.filled.append(rows)
        emit = np.zeros((*canvas.shape, VOCABULARY))
        for scores, index, row in zip(emit, sentence.tolist(), rows, strict=True):
            scores[: len(row)] = table(self.sources[index], row, self.levels)
        return TensorEmissions(torch.from_numpy(emit), 0, torch.from_numpy(lengths) - 1, SPECIAL_TOKENS)


class StubSlots:
    """A runtime that predicts given lengths of each source, best first."""

    max_source_length = 100
    max_canvas_length = 40

    def __init__(self, *best_lengths: Sequence[int], levels: int = 0) -> None:
        self.best_lengths, self.levels = best_lengths, levels
        self.readers: list[StubReader] = []

    def read(self, sources: Sources) -> StubReader:
        self.readers.append(StubReader(sources, self.best_lengths, self.levels))
        return self.readers[-1]


@dataclass
class Plain:
    """What the plain loop arrives at: tokens with bos and eos, score, and the tokens after each pass."""

    ids: list[int]
    score: float
    passes: list[list[int]]
    masked_counts: list[int]


def plainly_refined(
    source: Sequence[int], length: int, iterations: int, update_all: bool, levels: int = 0
) -> Plain:
    """Refine one canvas, position by position."""
    words = length - 2
    tokens, scores = [BOS, *[MASK] * words, EOS], [0.0] * length
    masked = set(range(1, length - 1))
    passes, counts = [], []
    for iteration in range(iterations):
        canvas = [MASK if place in masked else token for place, token in enumerate(tokens)]
        found = table(source, canvas, levels)
        counts.append(len(masked))
        for place in range(1, length - 1):
            if update_all or place in masked:
                tokens[place] = max(WORDS, key=lambda word: (found[place][word], -word))
                scores[place] = float(found[place][tokens[place]])
        passes.append(list(tokens))
        remaining = max(1, words * (iterations - iteration - 1) // iterations)
        masked = set(sorted(range(1, length - 1), key=lambda place: (scores[place], place))[:remaining])
    return Plain(tokens, sum(scores), passes, counts)
