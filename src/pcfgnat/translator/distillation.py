"""A teacher's translations as new training targets, line by line, in files that survive any interruption."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

import torch

from pcfgnat.config import dump_toml, load_config, to_dict
from pcfgnat.translator.translation import Translation
from pcfgnat.translator.translator import Translator


@dataclass(frozen=True)
class Progress:
    """What the file beside the output says: for which job, and how far both files are known to be right.

    `read_sha256` is of all source lines that were translated, so that another source is noticed.
    """

    format: Literal[1]
    job: dict[str, str]
    lines: int
    source_bytes: int
    target_bytes: int
    read_sha256: str
    complete: bool


class PairFiles:
    """Two files that grow line by line in step, as far as a third one says; `.partial` until complete.

    Both are cut to what the third file vouches for when they are opened again, so that after a crash at any
    moment there is neither half a line, nor one twice, nor one too few.
    """

    def __init__(self, prefix: Path, suffixes: tuple[str, str], job: Mapping[str, str]) -> None:
        self.paths = tuple(prefix.with_name(f"{prefix.name}.{suffix}") for suffix in suffixes)
        self._record = prefix.with_name(f"{prefix.name}.distill.toml")
        self._files: list[BinaryIO] = []
        self.progress = self._found(dict(job))

    def __enter__(self) -> "PairFiles":
        if self.progress.complete:
            self._rename()  # it may have been killed just before
            return self
        for path, size in zip(
            self._partial, (self.progress.source_bytes, self.progress.target_bytes), strict=True
        ):
            self._files.append(_opened(path, size))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()

    def append(self, sources: Sequence[str], targets: Sequence[str], read_sha256: str) -> None:
        """Write lines to both files, and vouch for them once they are on the disk."""
        for file, lines in zip(self._files, (sources, targets), strict=True):
            file.write("".join(f"{line}\n" for line in lines).encode())
            _sync(file)
        source_bytes, target_bytes = (file.tell() for file in self._files)
        self._save(
            replace(
                self.progress,
                lines=self.progress.lines + len(sources),
                source_bytes=source_bytes,
                target_bytes=target_bytes,
                read_sha256=read_sha256,
            )
        )

    def finish(self) -> None:
        """Give both files their names."""
        self._save(replace(self.progress, complete=True))
        self._rename()

    @property
    def _partial(self) -> tuple[Path, ...]:
        return tuple(path.with_name(f"{path.name}.partial") for path in self.paths)

    def _found(self, job: dict[str, str]) -> Progress:
        if not self._record.exists():
            for path in self.paths:
                if path.exists():
                    raise ValueError(f"{path} must not exist yet; choose another output or remove it")
            return Progress(1, job, 0, 0, 0, hashlib.sha256().hexdigest(), complete=False)
        progress = load_config(Progress, self._record)
        for key in sorted(progress.job.keys() | job.keys()):
            was, now = progress.job.get(key, "not given"), job.get(key, "not given")
            if was != now:
                advice = f"choose another output or remove {self._record}"
                raise ValueError(f"cannot go on: {key} was {was} and is {now} now; {advice}")
        return progress

    def _save(self, progress: Progress) -> None:
        fresh = self._record.with_name(f"{self._record.name}.new")
        with fresh.open("wb") as file:
            file.write(dump_toml(to_dict(progress)).encode())
            _sync(file)
        fresh.replace(self._record)
        self.progress = progress

    def _rename(self) -> None:
        for partial, path in zip(self._partial, self.paths, strict=True):
            if partial.exists():
                partial.replace(path)


def distill(
    translator: Translator, lines: Iterable[str], output: PairFiles, seed: int = 1, chunk_lines: int = 512
) -> Iterator[list[Translation]]:
    """Translate all lines that are not there yet, and give them as they are written; then finish the files.

    Text that was split beforehand stays so: both sides are then written in subwords. A crash costs the work
    of `chunk` lines at most.
    """
    iterator, hashed = iter(lines), hashlib.sha256()
    _skip(iterator, output.progress, hashed)
    marked = translator.tokenizer.kind == "subwords"
    while chunk := list(islice(iterator, chunk_lines)):
        torch.manual_seed(seed + output.progress.lines)  # samples do not depend on interruptions
        found = translator(chunk)
        targets = [" ".join(result.pieces) if marked else result.text for result in found]
        hashed.update("".join(f"{line}\n" for line in chunk).encode())
        output.append(chunk, targets, hashed.hexdigest())
        yield found
    output.finish()


def _skip(lines: Iterator[str], progress: Progress, hashed: "hashlib._Hash") -> None:
    """Read past what is translated already, and complain if it is another text."""
    for line in islice(lines, progress.lines):
        hashed.update(f"{line}\n".encode())
    if hashed.hexdigest() != progress.read_sha256:
        raise ValueError(
            f"cannot go on: the first {progress.lines} lines of the source are not those that were translated"
        )


def _opened(path: Path, size: int) -> BinaryIO:
    """Open a file to go on at `size`, for this process alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise ValueError(f"another process is writing {path}") from error
    if file.tell() < size:
        found = file.tell()
        file.close()
        raise ValueError(f"{path} must have at least {size} bytes to go on, got {found}")
    file.truncate(size)
    file.seek(size)
    return file


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
