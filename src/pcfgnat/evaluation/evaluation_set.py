"""Texts to judge by: sources and references, from prepared data or from files, for any tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Integer

from pcfgnat.text import Prepared, Tokenizer, read_lines
from pcfgnat.translator import Translator

IdPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class EvaluationSet:
    """References, and the sources to translate unless only finished translations are judged.

    marked:          source and reference with subwords marked by `@@`, where the data was split beforehand
    raw:             whether models read it as users write it, also those of text that was split
    split:           which part of prepared data it is; empty for files
    target_language: empty if unknown
    """

    name: str
    reference: list[str]
    source: list[str] | None = None
    marked: tuple[list[str], list[str]] | None = None
    target_language: str = ""
    split: str = ""
    raw: bool = False

    def __post_init__(self) -> None:
        if not self.reference:
            raise ValueError(f"{self.name} must have at least one reference, got none")
        if self.source is not None and len(self.source) != len(self.reference):
            counts = f"{len(self.source)} and {len(self.reference)}"
            raise ValueError(f"{self.name} must have the same number of lines, got {counts}")

    @classmethod
    def prepared(cls, directory: Path, split: Literal["valid", "test"]) -> "EvaluationSet":
        """Read a split of what `pcfgnat prepare` wrote."""
        data = Prepared.open(directory)
        source, reference = data.raw(split)
        marked = None
        if data.tokenizer.kind == "subwords":
            pairs = list(data.corpus(split))
            source_ids, target_ids = ([pair[side] for pair in pairs] for side in (0, 1))
            marked = (_marked(data.tokenizer, source_ids), _marked(data.tokenizer, target_ids))
        language = str(data.report.settings.get("target_language", ""))
        return cls(f"{directory} {split}", reference, source, marked, language, split, marked is None)

    @classmethod
    def files(cls, source: Path | None, reference: Path, raw: bool = False) -> "EvaluationSet":
        """Read plain or gzipped text, one sentence per line."""
        if source is None:
            return cls(str(reference), list(read_lines(reference)), raw=raw)
        name = f"{source} and {reference}"
        return cls(name, list(read_lines(reference)), list(read_lines(source)), raw=raw)

    @property
    def tokenised(self) -> bool:
        """Whether the text was tokenised and split before it was prepared."""
        return self.marked is not None

    def first(self, count: int | None) -> "EvaluationSet":
        """Return only the first sentences."""
        if count is None or count >= len(self.reference):
            return self
        return replace(
            self,
            name=f"{self.name}, first {count}",
            reference=self.reference[:count],
            source=None if self.source is None else self.source[:count],
            marked=None if self.marked is None else (self.marked[0][:count], self.marked[1][:count]),
        )

    def reader(self, translator: Translator) -> Translator:
        """Return the translator of this kind of text, from one that was loaded."""
        if not self.raw:
            return translator.for_corpus_text()
        if not self.split and not translator.tokenizer.takes_raw_text:
            raise ValueError("raw text needs models that carry subword codes, got one of split text without")
        return translator

    def source_for(self, tokenizer: Tokenizer) -> list[str]:
        """Return the source as a tokenizer reads it."""
        return self._sides(tokenizer)[0]

    def encoded(self, tokenizer: Tokenizer) -> list[IdPair]:
        """Return the ids of all pairs."""
        source, reference = self._sides(tokenizer)
        return list(zip(tokenizer.encode_all(source), tokenizer.encode_all(reference), strict=True))

    def _sides(self, tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
        if self.source is None:
            raise ValueError(f"models need source text to translate, got only references in {self.name}")
        if self.marked is not None and tokenizer.kind == "subwords":
            return self.marked
        return self.source, self.reference


def read_translations(path: Path, texts: EvaluationSet, limit: int | None = None) -> list[str]:
    """Read the finished translations of a system, one per reference."""
    lines = list(read_lines(path))[:limit]
    if len(lines) != len(texts.reference):
        raise ValueError(
            f"{path} must have {len(texts.reference)} lines, one per reference, got {len(lines)}"
        )
    return lines


def _marked(tokenizer: Tokenizer, sentences: Sequence[Integer[np.ndarray, "_"]]) -> list[str]:
    return [" ".join(tokenizer.pieces(ids[1:-1])) for ids in sentences]
