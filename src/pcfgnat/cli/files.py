"""Where a command writes to: files, pipes, and notices on stderr."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from pcfgnat.progress import VERBOSITY, Verbosity, is_quiet


@contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """Yield stdout, or a file whose name ends in `.partial` until it is complete."""
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
    """Return whether another file may take the place of an output; a pipe or /dev/null stays what it is."""
    if path.is_dir():
        raise ValueError(f"the output must be a file, but {path} is a directory")
    return path.is_file() or not path.exists()


def notice(text: str) -> None:
    """Print a message that is not a result, unless -q asks for results only."""
    if not is_quiet():
        print(f"pcfgnat: {text}", file=sys.stderr, flush=True)


def detail(text: str) -> None:
    """Print what only those want to know who said -v."""
    if VERBOSITY.get() is Verbosity.VERBOSE:
        notice(text)


def read_lines(path: Path | None) -> Iterator[str]:
    """Yield the lines of a text, or of stdin; numpy is imported with the first one."""
    from pcfgnat.text import read_lines as lines_of

    yield from lines_of(path)
