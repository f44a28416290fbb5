"""Sentence pairs to look at: from prepared data or from files, for any tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Integer

from pcfgnat.text import Prepared, Tokenizer

IdPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class TextPairs:
    """Sources and their references; `marked` is the same with subwords marked by `@@`, if that is known."""

    name: str
    source: list[str]
    target: list[str]
    marked: tuple[list[str], list[str]] | None = None

    def __post_init__(self) -> None:
        if not self.source or len(self.source) != len(self.target):
            raise ValueError(
                f"{self.name} must have as many targets as sources, at least one, "
                f"got {len(self.target)} and {len(self.source)}"
            )

    @classmethod
    def prepared(cls, directory: Path, split: Literal["valid", "test"]) -> "TextPairs":
        """Read a part of what `pcfgnat prepare` made."""
        data = Prepared.open(directory)
        source, target = data.raw(split)
        marked = None
        if data.tokenizer.kind == "subwords":
            pairs = list(data.corpus(split))
            source_ids, target_ids = ([pair[side] for pair in pairs] for side in (0, 1))
            marked = (_marked(data.tokenizer, source_ids), _marked(data.tokenizer, target_ids))
        return cls(f"{directory} {split}", source, target, marked)

    def first(self, count: int | None) -> "TextPairs":
        """Return only the first pairs."""
        if count is None or count >= len(self.source):
            return self
        marked = None if self.marked is None else (self.marked[0][:count], self.marked[1][:count])
        return TextPairs(f"{self.name}, first {count}", self.source[:count], self.target[:count], marked)

    def sides_for(self, tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
        """Return both sides as a tokenizer reads them."""
        return (
            self.marked
            if self.marked is not None and tokenizer.kind == "subwords"
            else (self.source, self.target)
        )

    def encoded(self, tokenizer: Tokenizer) -> list[IdPair]:
        """Return the ids of all pairs."""
        source, target = self.sides_for(tokenizer)
        return list(zip(tokenizer.encode_all(source), tokenizer.encode_all(target), strict=True))


def _marked(tokenizer: Tokenizer, sentences: Sequence[Integer[np.ndarray, "_"]]) -> list[str]:
    return [" ".join(tokenizer.pieces(ids[1:-1])) for ids in sentences]
