"""From parallel text to a tokenizer and memory-mapped ids, in memory that does not grow with the text."""

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool

from pcfgnat import __version__
from pcfgnat.config import to_dict
from pcfgnat.progress import activity, progress_bar
from pcfgnat.storage.files import atomic_directory, file_sha256
from pcfgnat.storage.toml import sealed_toml
from pcfgnat.text.cleaning import CleaningSettings, Encoder
from pcfgnat.text.corpus import CorpusWriter, ParallelCorpus
from pcfgnat.text.duplicates import DuplicateFinder
from pcfgnat.text.lexicon import learn_shortlist
from pcfgnat.text.lines import LineReader, PairReader, TextError, TextPair
from pcfgnat.text.pipeline import MosesSettings
from pcfgnat.text.prepared import RAW, REPORT, TOKENIZER, PrepareReport, SideReport, Split, SplitReport
from pcfgnat.text.shortlist import SHORTLIST
from pcfgnat.text.tokenizer import LearnSettings, SentencePieceTokenizer, SubwordTokenizer, Tokenizer

SPLITS: tuple[Split, ...] = ("valid", "test", "train")  # the long one last
MAX_SAMPLE_CHARACTERS = 1000  # of a sentence to learn from: bounds the memory of the sample


@dataclass(frozen=True)
class PrepareSettings:
    """What to prepare, and where to.

    A tokenizer is learnt from the training text unless `tokenizer` names one (its directory, that of a model
    or of prepared data, or a sentencepiece model) or `subword_vocabulary` the list of types of text that is
    split with `@@` already. `subword_codes` are those that subword-nmt split it with, and `moses` how Moses'
    scripts tokenised it before, `aggressive` with `-a`: models that carry them take raw text.
    With `shortlist`, it is also learnt which target types a source makes likely, for models to be exported.
    """

    output: Path
    train: tuple[TextPair, ...]
    valid: TextPair | None = None
    test: TextPair | None = None
    source_language: str = ""
    target_language: str = ""
    tokenizer: Path | None = None
    subword_vocabulary: Path | None = None
    subword_codes: Path | None = None
    moses: Literal["aggressive", "standard"] | None = None
    shortlist: bool = False
    learn: LearnSettings = field(default_factory=LearnSettings)
    cleaning: CleaningSettings = field(default_factory=CleaningSettings)

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train must name at least one pair of files, got none")
        if self.tokenizer is not None and self.subword_vocabulary is not None:
            raise ValueError("only one of tokenizer and subword_vocabulary may be given, got both")
        if self.subword_codes is not None and self.subword_vocabulary is None:
            raise ValueError("subword_codes must come with subword_vocabulary, got none")
        if self.moses is not None and self.subword_codes is None:
            raise ValueError("moses must come with subword_codes, got none")

    @property
    def moses_settings(self) -> MosesSettings | None:
        """The rules that tokenised the text, for its languages."""
        if self.moses is None:
            return None
        return MosesSettings(self.source_language, self.target_language, self.moses == "aggressive")

    def pairs(self, split: Split) -> tuple[TextPair, ...]:
        """Return the files of a split; none if it is not wanted."""
        if split == "train":
            return self.train
        pair = self.valid if split == "valid" else self.test
        return () if pair is None else (pair,)


def prepare(settings: PrepareSettings) -> PrepareReport:
    """Write a prepared directory: equal text and settings give equal bytes, an error leaves nothing."""
    for pair in chain.from_iterable(map(settings.pairs, SPLITS)):
        _check_readable(pair)
    with atomic_directory(settings.output) as directory:
        _check_held_out(settings)
        tokenizer = _given_tokenizer(settings)
        sample, repeated = _survey(settings, directory, learn=tokenizer is None)
        if tokenizer is None:
            tokenizer = _learnt(sample, settings.learn)
        sample.clear()
        tokenizer.save(directory / TOKENIZER)
        splits = {}
        for split in SPLITS:
            if settings.pairs(split):
                drop = split == "train"
                encoder = Encoder(tokenizer, settings.cleaning, repeated if drop else repeated[:0], drop)
                splits[split] = _write_split(settings.pairs(split), encoder, directory / split)
        report = PrepareReport(
            format=1,
            version=__version__,
            vocabulary_size=tokenizer.vocabulary_size,
            tokenizer_sha256=tokenizer.sha256,
            settings={name: value for name, value in to_dict(settings).items() if name != "output"},
            shortlist_sha256=_write_shortlist(directory) if settings.shortlist else "",
            train=splits["train"],
            valid=splits.get("valid"),
            test=splits.get("test"),
        )
        (directory / REPORT).write_text(sealed_toml(to_dict(report)), encoding="utf-8")
    return report


class _Reservoir:
    """A sample of all sentences seen, each with the same chance to be in it."""

    def __init__(self, size: int, seed: int) -> None:
        self.sentences: list[str] = []
        self._size = size
        self._seen = 0
        self._random = random.Random(seed)

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        for sentence in chain.from_iterable(pairs):
            if not sentence or len(sentence) > MAX_SAMPLE_CHARACTERS:
                continue
            self._seen += 1
            if len(self.sentences) < self._size:
                self.sentences.append(sentence)
            elif (place := self._random.randrange(self._seen)) < self._size:
                self.sentences[place] = sentence


def _survey(
    settings: PrepareSettings, directory: Path, learn: bool
) -> tuple[list[str], Bool[np.ndarray, "_"]]:
    """Read the training text once, if need be: sentences to learn from, and which pairs came before."""
    sample = _Reservoir(settings.learn.sample_size, settings.learn.seed)
    with DuplicateFinder(directory) as finder:
        if learn or settings.cleaning.drop_duplicates:
            for chunk in _chunks([PairReader(pair) for pair in settings.train], "reading train"):
                if learn:
                    sample.add(chunk)
                if settings.cleaning.drop_duplicates:
                    finder.add(chunk)
        return sample.sentences, finder.found()


def _given_tokenizer(settings: PrepareSettings) -> Tokenizer | None:
    if settings.subword_vocabulary is not None:
        codes, moses = settings.subword_codes, settings.moses_settings
        return SubwordTokenizer.from_file(settings.subword_vocabulary, codes, moses)
    if settings.tokenizer is None:
        return None
    path = settings.tokenizer
    if not path.is_dir():
        return SentencePieceTokenizer.from_file(path)
    own = path / TOKENIZER  # of a model, or of prepared data
    return Tokenizer.load(own if own.is_dir() else path)


def _learnt(sample: Sequence[str], settings: LearnSettings) -> Tokenizer:
    with activity(f"learning {settings.vocabulary_size} subwords from {len(sample)} sentences"):
        return SentencePieceTokenizer.learn(sample, settings)


def _write_split(pairs: Sequence[TextPair], encoder: Encoder, directory: Path) -> SplitReport:
    """Write the ids of a split; also its text, unless that is only there to be learnt from."""
    readers = [PairReader(pair) for pair in pairs]
    with CorpusWriter(directory, encoder.tokenizer.vocabulary_size) as writer:
        for chunk in _chunks(readers, f"encoding {directory.name}"):
            writer.add(encoder.encode(chunk))
    if not encoder.kept:
        faults = ", ".join(f"{fault} {count}" for fault, count in encoder.faults.items())
        raise TextError(f"at least one pair must be left to train on, got none of {encoder.read} ({faults})")
    report = _split_report(readers, encoder, directory)
    if encoder.drop:
        return report
    (pair,) = pairs
    return replace(report, raw_sha256=_write_raw(pair, encoder.tokenizer, directory))


def _write_shortlist(directory: Path) -> str:
    """Learn it from the training data and return the checksum."""
    learn_shortlist(ParallelCorpus(directory / "train")).save(directory / SHORTLIST)
    return file_sha256(directory / SHORTLIST)


def _write_raw(pair: TextPair, tokenizer: Tokenizer, directory: Path) -> tuple[str, ...]:
    """Write the text of both sides and return the checksums."""
    checksums = [hashlib.sha256(), hashlib.sha256()]
    with (directory / RAW[0]).open("wb") as source, (directory / RAW[1]).open("wb") as target:
        for chunk in PairReader(pair):
            for file, side, checksum in zip(
                (source, target), zip(*chunk, strict=True), checksums, strict=True
            ):
                content = "".join(f"{tokenizer.plain(text)}\n" for text in side).encode()
                file.write(content)
                checksum.update(content)
    return tuple(checksum.hexdigest() for checksum in checksums)


def _split_report(readers: Sequence[PairReader], encoder: Encoder, directory: Path) -> SplitReport:
    description = ParallelCorpus(directory).description
    source, target = (
        SideReport(
            files=tuple(str(reader.paths[side]) for reader in readers),
            sha256=tuple(reader.sha256[side] for reader in readers),
            tokens=written.tokens,
            unknown=encoder.unknown[side],
            longest=written.longest,
        )
        for side, written in enumerate((description.source, description.target))
    )
    return SplitReport(
        read=encoder.read,
        kept=encoder.kept,
        dropped=encoder.faults if encoder.drop else {},
        doubtful={} if encoder.drop else encoder.faults,
        source=source,
        target=target,
    )


def _check_readable(pair: TextPair) -> None:
    for path in (pair.source, pair.target):
        with LineReader(path):
            pass


def _check_held_out(settings: PrepareSettings) -> None:
    """Read valid and test through, so that their mistakes are reported before the long work."""
    readers = [PairReader(pair) for split in SPLITS if split != "train" for pair in settings.pairs(split)]
    for _ in _chunks(readers, "checking"):
        pass


def _chunks(readers: Sequence[PairReader], label: str) -> Iterator[list[tuple[str, str]]]:
    """Yield all pairs of several corpora, with rate and time left on a terminal."""
    total = sum(path.stat().st_size for reader in readers for path in reader.paths)
    with progress_bar(label, "B", total) as bar:
        for reader in readers:
            done = 0
            for chunk in reader:
                yield chunk
                bar.update(reader.position - done)
                done = reader.position
