"""Directories that somebody else wrote: only regular files inside them are read.

A pipe or a device in place of a file would keep a reader waiting for ever, and a link could lead to any file
of the reader's.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pcfgnat.storage.files import StorageError

MAX_ENTRIES = 10_000
KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def regular_file(directory: Path, name: str) -> Path:
    """Return the path of a file, which must be regular and lie inside the directory, links followed."""
    path = directory / name
    mode = _inside(path, directory.resolve())
    if not stat.S_ISREG(mode):
        raise StorageError(f"{path} must be a regular file, got {_kind(mode)}")
    return path


def require_regular_files(directory: Path) -> None:
    """Raise unless all that lies in a directory, at any depth, is regular files and directories inside it."""
    root = directory.resolve()
    for count, path in enumerate(_entries(directory), start=1):
        if count > MAX_ENTRIES:
            raise StorageError(f"{directory} must have at most {MAX_ENTRIES} files, got more")
        mode = _inside(path, root)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StorageError(f"{path} must be a regular file, got {_kind(mode)}")


def _entries(directory: Path) -> Iterator[Path]:
    for place, directories, files in os.walk(directory):  # links to directories are not entered
        yield from (Path(place, name) for name in (*directories, *files))


def _inside(path: Path, root: Path) -> int:
    """Return the mode of what a path leads to, which must lie below the root."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root):
            raise StorageError(f"{path} must lie inside {root}, but links to {real}")
        return real.stat().st_mode
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except RuntimeError as error:  # a link that leads to itself, before Python 3.13
        raise StorageError(f"cannot read {path}: too many links") from error


def _kind(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "something else")
