"""Lines in and out: files, packed files and pipes."""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO


def read_lines(path: Path | None) -> Iterator[str]:
    """Give the lines of a file (gzipped if its name says so) or of stdin, without their ends."""
    name = "stdin" if path is None else str(path)
    with _opened(path) as file:
        number = 0
        try:
            for number, line in enumerate(file, start=1):
                text = _decoded(line, number, name)
                yield text.removeprefix("\ufeff") if number == 1 else text
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"cannot read {name} after line {number}: {error}") from error


@contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """Give stdout, or a file that has its name once it is complete and `.partial` behind it until then."""
    if path is None:
        yield sys.stdout
        return
    if path.is_dir():
        raise ValueError(f"the output must be a file, but {path} is a directory")
    if path.exists() and not path.is_file():  # a pipe or /dev/null must not be replaced
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def notice(text: str) -> None:
    """Tell the user something that is no result."""
    print(f"pcfgnat: {text}", file=sys.stderr, flush=True)


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdin.buffer
        return
    with path.open("rb") as file:
        yield io.BufferedReader(gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file


def _decoded(line: bytes, number: int, name: str) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        place = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
        raise ValueError(f"{name} line {number} must be UTF-8, got {place}") from error
