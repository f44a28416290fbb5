"""Pairs of sentences to ids: which pairs have a fault, which ones stay, and how many there are of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from pcfgnat.text.tokenizer import Tokenizer

IdsPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class CleaningSettings:
    """What is dropped from the training data; the other data is only looked at.

    Lengths are in tokens and count bos and eos. `max_ratio` bounds longer side / shorter side; `inf` turns it
    off. `drop_identical` is about a source that equals its target; of duplicate pairs the first one stays.
    """

    max_length: int = 256
    max_ratio: float = 4.0
    drop_identical: bool = False
    drop_duplicates: bool = False

    def __post_init__(self) -> None:
        if self.max_length < 3:
            raise ValueError(f"max_length must be at least 3, got {self.max_length}")
        if not self.max_ratio >= 1:
            raise ValueError(f"max_ratio must be at least 1, got {self.max_ratio}")

    def fault(self, texts: tuple[str, str], ids: IdsPair) -> str | None:
        """Return what is wrong with a pair by itself, if anything."""
        shorter, longer = sorted((len(ids[0]), len(ids[1])))
        if shorter <= 2:
            return "empty"
        if self.drop_identical and texts[0].strip() == texts[1].strip():
            return "identical"
        if longer > self.max_length:
            return "too_long"
        return "length_ratio" if longer > self.max_ratio * shorter else None


class Encoder:
    """Encodes a split chunk by chunk; faulty pairs are counted, and with `drop` left out.

    `repeated` tells for every pair of the split whether it came before; it may be empty.
    """

    def __init__(
        self, tokenizer: Tokenizer, cleaning: CleaningSettings, repeated: Bool[np.ndarray, "_"], drop: bool
    ) -> None:
        self.tokenizer = tokenizer
        self.drop = drop
        self.read = 0
        self.kept = 0
        self.unknown = (0, 0)
        self._faults: Counter[str] = Counter()
        self._cleaning = cleaning
        self._repeated = repeated

    @property
    def faults(self) -> dict[str, int]:
        """How many pairs have which fault; the first one that applies counts."""
        return dict(sorted(self._faults.items()))

    def encode(self, chunk: Sequence[tuple[str, str]]) -> list[IdsPair]:
        """Return the ids of the pairs that stay."""
        source, target = (self.tokenizer.encode_all(side) for side in zip(*chunk, strict=True))
        repeated = set(np.flatnonzero(self._repeated[self.read : self.read + len(chunk)]).tolist())
        kept = []
        for index, (texts, ids) in enumerate(zip(chunk, zip(source, target, strict=True), strict=True)):
            fault = self._cleaning.fault(texts, ids) or ("duplicate" if index in repeated else None)
            if fault is not None:
                self._faults[fault] += 1
            if fault is None or not self.drop:
                kept.append(ids)
        self.read += len(chunk)
        self.kept += len(kept)
        new = [sum(pair[side].count(self.tokenizer.unk) for pair in kept) for side in (0, 1)]
        self.unknown = (self.unknown[0] + new[0], self.unknown[1] + new[1])
        return kept
