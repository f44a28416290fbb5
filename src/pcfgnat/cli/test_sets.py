"""What `pcfgnat evaluate` judges by: sources and references, from prepared data or from files."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pcfgnat.cli.files import read_lines

if TYPE_CHECKING:
    from pcfgnat.evaluation import Measures
    from pcfgnat.text import Tokenizer


@dataclass(frozen=True)
class TestSet:
    """What to translate and what should come out; `split` is the same with subwords marked by `@@`."""

    name: str
    source: list[str] | None
    reference: list[str]
    split: list[str] | None = None

    def source_for(self, tokenizer: "Tokenizer") -> list[str]:
        """Return the source as a tokenizer reads it."""
        if self.source is None:
            raise ValueError(
                "models need something to translate: give --data, or --source beside --reference"
            )
        return self.split if tokenizer.kind == "subwords" and self.split is not None else self.source


def choose_measures(options: argparse.Namespace) -> "Measures":
    """Choose BLEU's tokenizers by the target language and the kind of data."""
    from pcfgnat.evaluation import measures_for
    from pcfgnat.text import Prepared

    if options.data is None:
        return measures_for("", options.tokenized, options.tokenize)
    prepared = Prepared.open(options.data)
    language = str(prepared.report.settings.get("target_language", ""))
    tokenised = options.tokenized or prepared.tokenizer.kind == "subwords"
    return measures_for(language, tokenised, options.tokenize)


def read_test_set(options: argparse.Namespace, split: Literal["valid", "test"]) -> TestSet:
    """Read a part of the prepared data, or the files that were given."""
    limit = slice(options.limit)
    if options.data is not None and options.reference is None and options.source is None:
        return _prepared_set(options.data, split, limit)
    if options.data is not None or options.reference is None or options.tune_on is not None:
        raise ValueError("a test set must be either --data DIR, or --reference FILE with --source FILE; "
                         "--tune-on needs --data")  # fmt: skip
    reference = list(read_lines(options.reference))[limit]
    source = None if options.source is None else list(read_lines(options.source))[limit]
    if source is not None and len(source) != len(reference):
        files = f"{options.source} and {options.reference}"
        raise ValueError(
            f"{files} must have the same number of lines, got {len(source)} and {len(reference)}"
        )
    return TestSet(str(options.reference), source, reference)


def _prepared_set(directory: Path, split: Literal["valid", "test"], limit: slice) -> TestSet:
    from pcfgnat.text import Prepared

    prepared = Prepared.open(directory)
    source, reference = prepared.raw(split)
    marked = None
    if prepared.tokenizer.kind == "subwords":
        corpus = prepared.corpus(split)
        marked = [" ".join(prepared.tokenizer.pieces(ids[1:-1])) for ids, _ in corpus][limit]
    return TestSet(f"{directory} {split}", source[limit], reference[limit], marked)


def read_translations(path: Path, expected: int, limit: int | None) -> list[str]:
    """Read the translations of a system that is a file."""
    lines = list(read_lines(path))[slice(limit)]
    if len(lines) != expected:
        raise ValueError(f"{path} must have {expected} lines, one a reference, got {len(lines)}")
    return lines
