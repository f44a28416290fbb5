"""Parallel text in: two files in step, never held whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pcfgnat.storage.lines import LineReader, TextError, count_lines, open_lines, read_lines

__all__ = ["LineReader", "PairReader", "TextError", "TextPair", "count_lines", "open_lines", "read_lines"]

CHUNK_PAIRS = 4096
CHUNK_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class TextPair:
    """Two files whose lines are translations of each other; gzipped if the name ends in `.gz`."""

    source: Path
    target: Path

    @classmethod
    def from_prefix(cls, prefix: Path | str, source_suffix: str, target_suffix: str) -> "TextPair":
        """`data/train`, `en`, `de` are `data/train.en` and `data/train.de`, or the same with `.gz`."""
        return cls(_found(f"{prefix}.{source_suffix}"), _found(f"{prefix}.{target_suffix}"))


class PairReader:
    """The pairs of two files in chunks of bounded size; the hashes are available when all were read."""

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
