"""Text in: lines of plain or gzipped UTF-8, two files in step, checked on the way and never held whole."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn, cast

from pcfgnat.storage.files import StorageError

MAX_LINE_BYTES = 1 << 20
CHUNK_PAIRS = 4096
CHUNK_CHARACTERS = 1 << 20


class TextError(StorageError):
    """Text, or data made from it, that cannot be read, used or written."""


@dataclass(frozen=True)
class TextPair:
    """Two files whose lines are translations of each other; gzipped if the name ends in `.gz`."""

    source: Path
    target: Path

    @classmethod
    def from_prefix(cls, prefix: Path | str, source_suffix: str, target_suffix: str) -> "TextPair":
        """`data/train`, `en`, `de` are `data/train.en` and `data/train.de`, or the same with `.gz`."""
        return cls(_found(f"{prefix}.{source_suffix}"), _found(f"{prefix}.{target_suffix}"))


class LineReader:
    """The lines of a file, or of stdin; `lines` counts those read so far, `sha256` is of their bytes."""

    def __init__(self, path: Path | None, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.path = path if path is not None else "stdin"
        self.lines = 0
        self._max_line_bytes = max_line_bytes
        self._hash = hashlib.sha256()
        self._own = path is not None
        try:
            self._raw = sys.stdin.buffer if path is None else cast(BinaryIO, path.open("rb"))
        except OSError as error:
            raise TextError(f"cannot read {path}: {error.strerror}") from error
        packed = path is not None and path.suffix == ".gz"
        self._file = io.BufferedReader(gzip.GzipFile(fileobj=self._raw)) if packed else self._raw

    def __enter__(self) -> "LineReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own:
            self._file.close()
            self._raw.close()

    def __iter__(self) -> Iterator[str]:
        while (line := self.read()) is not None:
            yield line

    @property
    def position(self) -> int:
        """How many bytes of the file, compressed or not, have been read."""
        return self._raw.tell()

    @property
    def sha256(self) -> str:
        """Hash of what was read."""
        return self._hash.hexdigest()

    def read(self) -> str | None:
        """Return the next line without its end, `None` after the last one."""
        try:
            line = self._file.readline(self._max_line_bytes + 1)
        except (OSError, EOFError, zlib.error) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise TextError(f"cannot read {self.path} after line {self.lines}: {reason}") from error
        if not line:
            return None
        self.lines += 1
        if len(line) > (limit := self._max_line_bytes):
            raise TextError(f"{self.path} line {self.lines} must be at most {limit} bytes, got more")
        self._hash.update(line)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
            raise TextError(f"{self.path} line {self.lines} must be UTF-8, got {place}") from error
        if self.lines == 1:
            text = text.removeprefix("\ufeff")
        return text.rstrip("\r\n")


class PairReader:
    """The pairs of two files in chunks of bounded size; the hashes are there when all were read."""

    def __init__(self, pair: TextPair) -> None:
        self.paths = (pair.source, pair.target)
        self.sha256 = ("", "")
        self.position = 0  # bytes of both files read so far, compressed or not

    def __iter__(self) -> Iterator[list[tuple[str, str]]]:
        with LineReader(self.paths[0]) as source, LineReader(self.paths[1]) as target:
            while chunk := _chunk(source, target):
                self.position = source.position + target.position
                yield chunk
            if source.lines == 0:
                raise TextError(_empty(source))
            self.sha256 = (source.sha256, target.sha256)


def _chunk(source: LineReader, target: LineReader) -> list[tuple[str, str]]:
    chunk: list[tuple[str, str]] = []
    characters = 0
    while len(chunk) < CHUNK_PAIRS and characters < CHUNK_CHARACTERS:
        left, right = source.read(), target.read()
        if left is None and right is None:
            break
        if left is None or right is None:
            _complain(source, target)
        chunk.append((left, right))
        characters += len(left) + len(right)
    return chunk


def _complain(source: LineReader, target: LineReader) -> NoReturn:
    """One of the two has ended: count the rest of the other."""
    for reader in (source, target):
        while reader.read() is not None:
            pass
    if 0 not in (source.lines, target.lines):
        files, counts = f"{source.path} and {target.path}", f"{source.lines} and {target.lines}"
        raise TextError(f"{files} must have the same number of lines, got {counts}")
    raise TextError(_empty(source if source.lines == 0 else target))


def _empty(reader: LineReader) -> str:
    return f"{reader.path} must have at least one line, got an empty file"


def _found(name: str) -> Path:
    plain, packed = Path(name), Path(f"{name}.gz")
    return packed if packed.exists() and not plain.exists() else plain
