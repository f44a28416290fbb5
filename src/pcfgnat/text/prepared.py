"""What `prepare` leaves: a directory with tokenizer, ids, raw text of valid and test, and a report.

If it was asked for, there is a shortlist too.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pcfgnat.storage.files import file_sha256
from pcfgnat.storage.toml import load_config
from pcfgnat.text.corpus import ParallelCorpus
from pcfgnat.text.lines import LineReader, TextError
from pcfgnat.text.shortlist import SHORTLIST, Shortlist
from pcfgnat.text.tokenizer import Tokenizer

REPORT = "report.toml"
TOKENIZER = "tokenizer"
RAW = ("source.txt", "target.txt")

Split = Literal["train", "valid", "test"]


@dataclass(frozen=True)
class SideReport:
    """One side of a split: the files with the hashes of their text, and counts of what was kept."""

    files: tuple[str, ...]
    sha256: tuple[str, ...]
    tokens: int
    unknown: int
    longest: int


@dataclass(frozen=True)
class SplitReport:
    """Pairs read and kept. `dropped` says why pairs are missing, `doubtful` what would have been a reason.

    `raw_sha256` is of the text beside the ids, both sides, if there is any.
    """

    read: int
    kept: int
    dropped: dict[str, int]
    doubtful: dict[str, int]
    source: SideReport
    target: SideReport
    raw_sha256: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.read} pairs read, {self.kept} kept"]
        for verb, counts in (("dropped", self.dropped), ("kept though", self.doubtful)):
            parts += [f"{verb} {reason.replace('_', ' ')}: {count}" for reason, count in counts.items()]
        for name, side in (("source", self.source), ("target", self.target)):
            parts.append(
                f"{name}: {side.tokens} tokens, {side.unknown} unknown, at most {side.longest} per sentence"
            )
        return "; ".join(parts)


@dataclass(frozen=True)
class PrepareReport:
    """What was made from what; lengths and tokens count bos and eos. No checksum: no shortlist."""

    format: Literal[1]
    version: str
    vocabulary_size: int
    tokenizer_sha256: str
    settings: dict[str, Any]
    train: SplitReport
    valid: SplitReport | None = None
    test: SplitReport | None = None
    shortlist_sha256: str = ""

    @property
    def splits(self) -> dict[Split, SplitReport]:
        """The splits that there are."""
        named: dict[Split, SplitReport | None] = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: split for name, split in named.items() if split is not None}

    def __str__(self) -> str:
        lines = [f"{name}: {split}" for name, split in self.splits.items()]
        return "\n".join([f"vocabulary: {self.vocabulary_size}", *lines])


@dataclass(frozen=True)
class Prepared:
    """A prepared directory, opened."""

    directory: Path
    tokenizer: Tokenizer
    report: PrepareReport

    @classmethod
    def open(cls, directory: Path) -> "Prepared":
        """Read tokenizer and report."""
        if not (directory / REPORT).exists():
            raise TextError(f"{directory} must be a prepared directory, but it has no {REPORT}")
        report = load_config(PrepareReport, directory / REPORT)
        tokenizer = Tokenizer.load(directory / TOKENIZER)
        if tokenizer.sha256 != report.tokenizer_sha256:
            raise TextError(f"{directory}: the tokenizer is not the one that the corpora were made with")
        return cls(directory, tokenizer, report)

    def corpus(self, split: Split) -> ParallelCorpus:
        """Map the ids of a split into memory."""
        self._require(split)
        corpus = ParallelCorpus(self.directory / split)
        expected = (self.report.splits[split].kept, self.tokenizer.vocabulary_size)
        if (len(corpus), corpus.vocabulary_size) != expected:
            found = f"{len(corpus)} and {corpus.vocabulary_size}"
            raise TextError(
                f"{corpus.directory} must have {expected[0]} pairs and {expected[1]} tokens, got {found}"
            )
        return corpus

    def raw(self, split: Literal["valid", "test"]) -> tuple[list[str], list[str]]:
        """Return the sentences of both sides as they came, in the order of the corpus."""
        self._require(split)
        checksums = self.report.splits[split].raw_sha256 or ("", "")
        source, target = (
            _lines(self.directory / split / name, checksum)
            for name, checksum in zip(RAW, checksums, strict=True)
        )
        expected = self.report.splits[split].kept
        if {len(source), len(target)} != {expected}:
            found = f"{len(source)} and {len(target)}"
            raise TextError(
                f"the raw text in {self.directory / split} must have {expected} lines, got {found}"
            )
        return source, target

    def shortlist(self) -> Shortlist | None:
        """Read the shortlist, if one was learnt."""
        if not (expected := self.report.shortlist_sha256):
            return None
        path = self.directory / SHORTLIST
        if not path.is_file():
            raise TextError(f"{path} is missing, but according to the report it was learnt")
        if (found := file_sha256(path)) != expected:
            raise TextError(f"{path} is damaged: its sha256 must be {expected}, got {found}")
        return Shortlist.load(path)

    def verify(self) -> None:
        """Read everything; raise an error if a checksum is wrong."""
        self.shortlist()
        for split in self.report.splits:
            self.corpus(split).verify()
            if split != "train":
                self.raw(split)

    def _require(self, split: Split) -> None:
        if split not in self.report.splits:
            raise TextError(f"{self.directory} has no {split} data, only {', '.join(self.report.splits)}")


def _lines(path: Path, checksum: str) -> list[str]:
    """Read a text; without a checksum it is from before there were any."""
    with LineReader(path) as reader:
        lines = list(reader)
        if checksum and reader.sha256 != checksum:
            raise TextError(f"{path} is damaged: its sha256 must be {checksum}, got {reader.sha256}")
    return lines
