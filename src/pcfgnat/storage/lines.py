"""Lines of plain or gzipped UTF-8 text, checked on the way and never held whole."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from pcfgnat.storage.files import StorageError

MAX_LINE_BYTES = 1 << 20
MAX_TEXT_LINE_BYTES = 1 << 26  # of text to translate: a book without a single line break fits

BLOCK_BYTES = 1 << 20


class TextError(StorageError):
    """Text, or data made from it, that cannot be read, used or written."""


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


def open_lines(path: Path | None) -> LineReader:
    """Open a text to translate, or stdin, to read its lines."""
    return LineReader(path, MAX_TEXT_LINE_BYTES)


def read_lines(path: Path | None) -> Iterator[str]:
    """Yield the lines of a file (gzipped if its name ends in `.gz`) or of stdin, without their ends."""
    with open_lines(path) as reader:
        yield from reader


def count_lines(path: Path | None) -> int | None:
    """Return how many lines a regular file has; None of stdin, of pipes and of what cannot be read."""
    if path is None or not path.is_file():
        return None
    lines, last = 0, b"\n"
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                lines, last = lines + block.count(b"\n"), block[-1:]
    except (OSError, EOFError, zlib.error):  # reading the lines themselves says what is wrong
        return None
    return lines + (last != b"\n")
