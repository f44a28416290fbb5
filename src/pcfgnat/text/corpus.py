"""Pairs of id sequences on disk, mapped into memory: a corpus may be larger than that.

A corpus is a directory. For each side it holds the ids of all sentences one after the other (`source.ids`)
and where each one starts (`source.offsets`); `corpus.toml` has counts and checksums.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

import numpy as np
from jaxtyping import Int32, Integer, UInt64

from pcfgnat.config import to_dict
from pcfgnat.storage.files import atomic_directory, file_sha256
from pcfgnat.storage.toml import load_config, sealed_toml
from pcfgnat.text.lines import TextError

DESCRIPTION = "corpus.toml"
OFFSET = np.dtype("<u8")
BLOCK = 1 << 20

Ids = Sequence[int]
Pair = tuple[Ids, Ids]
IdType = np.dtype[np.unsignedinteger]


@dataclass(frozen=True)
class SideDescription:
    """One side of a corpus: how many ids, the longest sentence, and the checksums of the two files."""

    tokens: int
    longest: int
    ids_sha256: str
    offsets_sha256: str

    def __post_init__(self) -> None:
        if self.tokens < 0:
            raise ValueError(f"tokens must not be negative, got {self.tokens}")


@dataclass(frozen=True)
class CorpusDescription:
    """What `corpus.toml` says."""

    format: Literal[1]
    pairs: int
    vocabulary_size: int
    dtype: Literal["<u2", "<u4"]
    source: SideDescription
    target: SideDescription

    def __post_init__(self) -> None:
        if self.pairs < 0:
            raise ValueError(f"pairs must not be negative, got {self.pairs}")


class ParallelCorpus:
    """Pairs of id sequences. `corpus[i]` is a source and a target, which must not be written to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.description = load_config(CorpusDescription, directory / DESCRIPTION)
        self._source = _Side(directory, "source", self.description)
        self._target = _Side(directory, "target", self.description)

    def __len__(self) -> int:
        return self.description.pairs

    def __getitem__(self, index: int) -> tuple[Integer[np.ndarray, "S"], Integer[np.ndarray, "T"]]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index must be in {-len(self)} … {len(self) - 1}, got {index}")
        return self._source[index % len(self)], self._target[index % len(self)]

    def __iter__(self) -> Iterator[tuple[Integer[np.ndarray, "S"], Integer[np.ndarray, "T"]]]:
        return (self[index] for index in range(len(self)))

    @property
    def vocabulary_size(self) -> int:
        """All ids are smaller than this."""
        return self.description.vocabulary_size

    @property
    def source_lengths(self) -> Int32[np.ndarray, "n"]:
        """Number of ids of each source."""
        return self._source.lengths

    @property
    def target_lengths(self) -> Int32[np.ndarray, "n"]:
        """Number of ids of each target."""
        return self._target.lengths

    def verify(self) -> None:
        """Read everything; raise an error if a checksum is wrong, or an id is not in the vocabulary."""
        self._source.verify(self.vocabulary_size)
        self._target.verify(self.vocabulary_size)


class CorpusWriter:
    """Writes a corpus into a directory in constant memory; it is complete when the `with` block ends well."""

    def __init__(self, directory: Path, vocabulary_size: int) -> None:
        self.directory = directory
        self.vocabulary_size = vocabulary_size
        self.pairs = 0
        self._dtype: Literal["<u2", "<u4"] = "<u2" if vocabulary_size <= 1 << 16 else "<u4"
        self._files = ExitStack()

    def __enter__(self) -> "CorpusWriter":
        self.directory.mkdir(exist_ok=True)
        with ExitStack() as files:
            self._sides = [
                _SideWriter(*(files.enter_context(path.open("wb")) for path in _paths(self.directory, side)))
                for side in ("source", "target")
            ]
            self._files = files.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
        if kind is None:
            source, target = [side.description() for side in self._sides]
            description = CorpusDescription(1, self.pairs, self.vocabulary_size, self._dtype, source, target)
            (self.directory / DESCRIPTION).write_text(sealed_toml(to_dict(description)), encoding="utf-8")

    def add(self, pairs: Iterable[Pair]) -> None:
        """Append pairs; many at a time are faster than one by one."""
        columns = list(zip(*pairs, strict=True)) or [(), ()]
        for side, sentences in zip(self._sides, columns, strict=True):
            side.add(sentences, self.vocabulary_size, np.dtype(self._dtype))
        self.pairs += len(columns[0])


@contextmanager
def write_corpus(directory: Path, vocabulary_size: int) -> Iterator[CorpusWriter]:
    """Write a corpus that exists completely or, after an error, not at all."""
    with atomic_directory(directory) as partial, CorpusWriter(partial, vocabulary_size) as writer:
        yield writer


class _Side:
    """The mapped files of one side."""

    def __init__(self, directory: Path, side: str, whole: CorpusDescription) -> None:
        self._expected = whole.source if side == "source" else whole.target
        self._ids_path, self._offsets_path = _paths(directory, side)
        self._ids = _mapped(self._ids_path, np.dtype(whole.dtype), self._expected.tokens)
        self._offsets: UInt64[np.ndarray, "n+1"] = _mapped(self._offsets_path, OFFSET, whole.pairs + 1)
        first, last = int(self._offsets[0]), int(self._offsets[-1])
        if (first, last) != (0, self._expected.tokens):
            expected = f"0 … {self._expected.tokens}"
            raise TextError(f"{self._offsets_path} is damaged: it must span {expected}, got {first} … {last}")

    def __getitem__(self, index: int) -> Integer[np.ndarray, "N"]:
        return self._ids[int(self._offsets[index]) : int(self._offsets[index + 1])]

    @cached_property
    def lengths(self) -> Int32[np.ndarray, "n"]:
        lengths = np.diff(self._offsets).astype(np.int32)
        lengths.flags.writeable = False
        return lengths

    def verify(self, vocabulary_size: int) -> None:
        expected = (self._expected.ids_sha256, self._expected.offsets_sha256)
        for path, checksum in zip((self._ids_path, self._offsets_path), expected, strict=True):
            if (found := file_sha256(path)) != checksum:
                raise TextError(f"{path} is damaged: its sha256 must be {checksum}, got {found}")
        if bool((self._offsets[1:] < self._offsets[:-1]).any()):
            raise TextError(
                f"{self._offsets_path} is damaged: no sentence may start before the one before it"
            )
        for start in range(0, len(self._ids), BLOCK):
            if (largest := int(self._ids[start : start + BLOCK].max())) >= vocabulary_size:
                raise TextError(f"{self._ids_path}: ids must be less than {vocabulary_size}, got {largest}")


class _SideWriter:
    def __init__(self, ids: BinaryIO, offsets: BinaryIO) -> None:
        self._ids, self._offsets = _Hashed(ids), _Hashed(offsets)
        self._tokens = self._longest = 0
        self._offsets.write(np.zeros(1, OFFSET))

    def add(self, sentences: Sequence[Ids], vocabulary_size: int, dtype: IdType) -> None:
        ids = np.fromiter(chain.from_iterable(sentences), np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < vocabulary_size:
            raise ValueError(f"ids must be in 0 … {vocabulary_size - 1}, got {ids.min()} … {ids.max()}")
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        self._ids.write(ids.astype(dtype))
        self._offsets.write((self._tokens + np.cumsum(lengths)).astype(OFFSET))
        self._tokens += ids.size
        self._longest = max(self._longest, int(lengths.max(initial=0)))

    def description(self) -> SideDescription:
        return SideDescription(self._tokens, self._longest, self._ids.sha256, self._offsets.sha256)


class _Hashed:
    """A file and the checksum of what was written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, array: Integer[np.ndarray, "_"]) -> None:
        content = array.tobytes()
        self._file.write(content)
        self._hash.update(content)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def _paths(directory: Path, side: str) -> tuple[Path, Path]:
    return directory / f"{side}.ids", directory / f"{side}.offsets"


def _mapped(path: Path, dtype: IdType, count: int) -> Integer[np.ndarray, "_"]:
    try:
        size = path.stat().st_size
        if size != count * dtype.itemsize:
            raise TextError(f"{path} is damaged: it must have {count * dtype.itemsize} bytes, got {size}")
        if count == 0:
            return np.zeros(0, dtype)  # an empty file cannot be mapped
        return np.memmap(path, dtype, mode="r").view(np.ndarray)
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror}") from error
