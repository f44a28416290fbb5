"""A text file that is written in pieces by whoever comes first, each piece exactly once.

Beside the output lies a directory with a manifest, which says where the input is cut, and one file for each
piece, named by its lines. A piece appears whole or not at all; the same piece written twice is the same file.
So whatever dies, what is there is right, and what is missing is known.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pcfgnat.config import to_dict
from pcfgnat.storage.files import sync, write_atomically
from pcfgnat.storage.job import check_same_job
from pcfgnat.storage.lines import TextError, open_lines
from pcfgnat.storage.toml import load_config, sealed_toml

MANIFEST = "manifest.toml"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Shard:
    """Lines of the input from `first` on, counted from 0, which are its bytes from `start` to `stop`."""

    first: int
    lines: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """File name: from which line to before which one."""
        return f"{self.first:012d}-{self.first + self.lines:012d}.txt"

    def read(self, source: Path) -> list[str]:
        """Return the lines, without their ends."""
        with source.open("rb") as file:
            file.seek(self.start)
            text = file.read(self.stop - self.start).decode("utf-8")
        if self.first == 0:
            text = text.removeprefix("\ufeff")
        lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
        if len(lines) != self.lines:
            raise TextError(
                f"{source} has changed: bytes {self.start} to {self.stop} must be {self.lines} lines, "
                f"got {len(lines)}"
            )
        return lines


@dataclass(frozen=True)
class Manifest:
    """What is made of what: `offsets` are where shards begin in the input, and its end, in bytes."""

    format: Literal[1]
    job: dict[str, str]
    input_sha256: str
    lines: int
    shard_lines: int
    offsets: list[int]


class ShardedFile:
    """The output of a job, of which some shards may be there already."""

    def __init__(self, output: Path, manifest: Manifest) -> None:
        self.output, self.manifest = output, manifest
        self.directory = _directory(output)

    @classmethod
    def begun(cls, source: Path, output: Path, job: Mapping[str, str], shard_lines: int) -> "ShardedFile":
        """Cut an input into shards, or resume a job, which must be the same then."""
        if source.suffix == ".gz":
            raise ValueError(
                f"the input must be unpacked, so that each worker can read its part, got {source}"
            )
        manifest = _planned(source, dict(job), shard_lines)
        place = _directory(output)
        if (place / MANIFEST).exists():
            check_same_job(_facts(load_config(Manifest, place / MANIFEST)), _facts(manifest), place)
        else:
            place.mkdir(parents=True, exist_ok=True)
            write_atomically(place / MANIFEST, sealed_toml(to_dict(manifest)).encode())
        for left in place.glob(".*.partial"):  # of workers that died
            left.unlink()
        return cls(output, manifest)

    @property
    def shards(self) -> list[Shard]:
        """All of them, in order."""
        plan = self.manifest
        starts = range(0, plan.lines, plan.shard_lines)
        return [
            Shard(first, min(plan.shard_lines, plan.lines - first), *plan.offsets[place : place + 2])
            for place, first in enumerate(starts)
        ]

    def missing(self) -> list[Shard]:
        """Return the shards that are still to be written."""
        there = {path.name for path in self.directory.iterdir()}
        return [shard for shard in self.shards if shard.name not in there]

    def merge(self) -> None:
        """Join all shards in order; an existing output is replaced."""
        partial = self.output.with_name(f".{self.output.name}.partial")
        with partial.open("wb") as whole:
            for shard in self.shards:
                path = self.directory / shard.name
                _check_lines(path, shard.lines)
                with path.open("rb") as part:
                    shutil.copyfileobj(part, whole, BLOCK)
            whole.flush()
            os.fsync(whole.fileno())
        partial.replace(self.output)
        sync(self.output.parent)


def write_shard(directory: Path, shard: Shard, lines: Sequence[str]) -> None:
    """Write a shard at once; others may be writing the same one at the same time."""
    if len(lines) != shard.lines or any("\n" in line for line in lines):
        raise ValueError(
            f"{shard.name} must have {shard.lines} lines, got {len(lines)}, or one that is several"
        )
    handle, name = tempfile.mkstemp(prefix=f".{shard.name}.", suffix=".partial", dir=directory)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # mkstemp lets nobody else read it
        os.replace(name, directory / shard.name)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync(directory)


def _directory(output: Path) -> Path:
    return output.with_name(f"{output.name}.shards")


def _planned(source: Path, job: dict[str, str], shard_lines: int) -> Manifest:
    """Read the input once: every line must be text, and offsets and hash are found on the way."""
    offsets = [0]
    with open_lines(source) as reader:
        offsets += [reader.position for _ in reader if reader.lines % shard_lines == 0]
        if not reader.lines:
            raise ValueError(f"{source} must have at least one line, got none")
        if reader.lines % shard_lines:
            offsets.append(reader.position)
        return Manifest(1, job, reader.sha256, reader.lines, shard_lines, offsets)


def _facts(plan: Manifest) -> dict[str, str]:
    return {**plan.job, "input": plan.input_sha256, "shard_lines": str(plan.shard_lines)}


def _check_lines(path: Path, lines: int) -> None:
    found = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found += block.count(b"\n")
    if found != lines:
        raise ValueError(
            f"{path} is damaged: it must have {lines} lines, got {found}; remove it to have it made again"
        )
