"""Files that grow in step, line by line, and survive any interruption."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

from pcfgnat.config import to_dict
from pcfgnat.storage.files import lock, sync, write_atomically
from pcfgnat.storage.job import check_same_job
from pcfgnat.storage.toml import load_config, sealed_toml

BLOCK = 1 << 20


@dataclass(frozen=True)
class Progress:
    """What the record beside the output says: for which job, and how far the files are known to be right.

    lines, read_sha256: source lines that are done, and their hash, so that another source is noticed
    sizes, sha256:      bytes of each file, and the hash of these
    """

    format: Literal[2]
    job: dict[str, str]
    lines: int
    read_sha256: str
    sizes: list[int]
    sha256: list[str]
    complete: bool


class GrowingFiles:
    """Files that grow in step, as far as a record vouches for; `.partial` until complete.

    All are cut to what the record says when they are opened again, so that after a crash at any moment there
    is neither half a line, nor one twice, nor one too few. With `replacing`, files that are there already are
    replaced in the end and the record goes; without, there may be none and the record stays.
    """

    def __init__(
        self, paths: Sequence[Path], record: Path, job: Mapping[str, str], replacing: bool = False
    ) -> None:
        self.paths = tuple(paths)
        self._record, self._replacing = record, replacing
        self._files: list[_Growing] = []
        self.progress = self._found(dict(job))

    def __enter__(self) -> "GrowingFiles":
        if self.progress.complete:
            self._rename()  # it may have been killed just before
            return self
        try:
            for path, size, checksum in zip(
                self._partial, self.progress.sizes, self.progress.sha256, strict=True
            ):
                self._files.append(_Growing(path, size, checksum))
        except ValueError:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        if self._files and not self.progress.complete and not self._record.exists():  # they are empty
            for path in self._partial:
                path.unlink()

    def append(self, texts: Sequence[str], lines: int, read_sha256: str) -> None:
        """Write a text to each file, made from so many source lines; vouch for it once it is on the disk."""
        for file, text in zip(self._files, texts, strict=True):
            file.append(text.encode())
        self._save(
            replace(
                self.progress,
                lines=self.progress.lines + lines,
                read_sha256=read_sha256,
                sizes=[file.size for file in self._files],
                sha256=[file.sha256 for file in self._files],
            )
        )

    def finish(self) -> None:
        """Rename the files to their final names."""
        self._save(replace(self.progress, complete=True))
        self._rename()

    @property
    def _partial(self) -> tuple[Path, ...]:
        return tuple(path.with_name(f"{path.name}.partial") for path in self.paths)

    def _found(self, job: dict[str, str]) -> Progress:
        if not self._record.exists():
            for path in self.paths:
                if path.exists() and not self._replacing:
                    raise ValueError(f"{path} must not exist yet; choose another output or remove it")
            nothing, count = hashlib.sha256().hexdigest(), len(self.paths)
            return Progress(2, job, 0, nothing, [0] * count, [nothing] * count, complete=False)
        progress = load_config(Progress, self._record)
        check_same_job(progress.job, job, self._record)
        return progress

    def _save(self, progress: Progress) -> None:
        write_atomically(self._record, sealed_toml(to_dict(progress)).encode())
        self.progress = progress

    def _rename(self) -> None:
        for partial, path in zip(self._partial, self.paths, strict=True):
            if partial.exists():
                partial.replace(path)
            elif not path.exists():
                raise ValueError(
                    f"{path} is missing, but complete according to {self._record}; delete that to start over"
                )
            sync(path.parent)
        if self._replacing:
            self._record.unlink()

    def _close(self) -> None:
        for file in self._files:
            file.close()


class _Growing:
    """A file that this process alone appends to, and the hash of all that is in it."""

    def __init__(self, path: Path, size: int, sha256: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("a+b")
        self._hash = hashlib.sha256()
        self.size = size
        try:
            if not lock(self._file.fileno()):
                raise ValueError(f"another process is writing {path}")
            self._read(path, sha256)
        except ValueError:
            self._file.close()
            raise
        self._file.truncate(size)
        self._file.seek(size)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def append(self, content: bytes) -> None:
        self._file.write(content)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._hash.update(content)
        self.size += len(content)

    def close(self) -> None:
        self._file.close()

    def _read(self, path: Path, expected: str) -> None:
        """Read the file, and check that it has the expected content."""
        if (found := self._file.seek(0, os.SEEK_END)) < self.size:
            raise ValueError(f"{path} must have at least {self.size} bytes to resume, got {found}")
        self._file.seek(0)
        left = self.size
        while left and (block := self._file.read(min(BLOCK, left))):
            self._hash.update(block)
            left -= len(block)
        if self.sha256 != expected:
            part = f"the sha256 of its first {self.size} bytes"
            raise ValueError(f"{path} is damaged: {part} must be {expected}, got {self.sha256}")
