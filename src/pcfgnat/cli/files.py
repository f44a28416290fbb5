"""Lines in and out: files, packed files and pipes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pcfgnat.progress import VERBOSITY, Verbosity, is_quiet

if TYPE_CHECKING:
    from pcfgnat.text import LineReader

MAX_LINE_BYTES = 1 << 26  # a book without a single line break fits


def read_lines(path: Path | None) -> Iterator[str]:
    """Give the lines of a file (gzipped if its name says so) or of stdin, without their ends."""
    with opened(path) as reader:
        yield from reader


def opened(path: Path | None) -> "LineReader":
    """Open a file, or stdin, to read its lines."""
    from pcfgnat.text import LineReader

    return LineReader(path, MAX_LINE_BYTES)


@contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """Give stdout, or a file that has its name once it is complete and `.partial` behind it until then."""
    if path is None:
        yield sys.stdout
        return
    if not replaceable(path):
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def replaceable(path: Path) -> bool:
    """Say whether another file may take the place of an output; a pipe or /dev/null must stay what it is."""
    if path.is_dir():
        raise ValueError(f"the output must be a file, but {path} is a directory")
    return path.is_file() or not path.exists()


def notice(text: str) -> None:
    """Print something that is not a result, unless -q asks for results only."""
    if not is_quiet():
        print(f"pcfgnat: {text}", file=sys.stderr, flush=True)


def detail(text: str) -> None:
    """Print what only those want to know who said -v."""
    if VERBOSITY.get() is Verbosity.VERBOSE:
        notice(text)
