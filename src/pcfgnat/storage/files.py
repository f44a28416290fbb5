"""Files and directories that exist completely or not at all, even after a power failure."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class StorageError(ValueError):
    """Files that cannot be read, claimed or written."""


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to write into, which gets its name once everything in it is on the disk.

    It lies beside `path` until then. After an error nothing is left of it; what a killed process leaves is
    removed by the next one that writes to `path`.
    """
    path = Path(os.path.abspath(path))
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise StorageError(f"{path} must not exist or be an empty directory")
    new = [parent for parent in path.parents if not parent.exists()]
    try:
        with _claimed(path) as partial:
            try:
                yield partial
                _to_disk(partial)
                partial.rename(path)
                for parent in (path, *new):
                    sync(parent.parent)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
    except BaseException as error:
        for parent in new:
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError):
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file at once, so that it is never there in part."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync(path.parent)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def replaced_directory(path: Path, marker: str) -> Iterator[Path]:
    """Yield a directory to write into that takes the place of `path` once it is complete.

    An existing directory is replaced only if it is empty or has a file of the name `marker`.
    """
    fresh, old = (path.with_name(f".{path.name}.{suffix}") for suffix in ("new", "old"))
    try:
        if path.exists() and not (path / marker).exists() and any(path.iterdir()):
            raise StorageError(f"{path} must not exist, be empty or have a {marker} to be replaced")
        if old.exists() and not path.exists():  # a process was killed between the two renamings below
            old.rename(path)
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
        with atomic_directory(fresh) as partial:
            yield partial
        if path.exists():
            path.rename(old)
        fresh.rename(path)
        sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    except StorageError as error:
        raise StorageError(str(error).replace(str(fresh.absolute()), str(path))) from error
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _claimed(path: Path) -> Iterator[Path]:
    """An empty directory that no other process writes to."""
    partial = path.with_name(f".{path.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    handle = os.open(partial, os.O_RDONLY)
    try:
        if not lock(handle):
            raise StorageError(f"another process is writing {path}")
        for left in partial.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield partial
    finally:
        os.close(handle)


def lock(handle: int) -> bool:
    """Keep other processes out until the handle is closed; false if one of them was faster."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # not every file system has locks
    return True


def _to_disk(directory: Path) -> None:
    for place, _, names in os.walk(directory):
        for name in names:
            sync(Path(place, name))
        sync(Path(place))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(path: Path) -> str:
    """Return the checksum of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
