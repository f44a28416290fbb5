"""Which pairs of a corpus came before: exact, in constant memory."""

import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Bool, Int, UInt64

BYTES_EACH = 128  # what a pair takes while it is compared, sorting included
BLOCK = 1 << 18


class DuplicateFinder:
    """Keeps 16 bytes of hash for each pair in a scratch file, and compares them share by share of hash space.

    There are as many shares as it takes to stay within `memory` bytes.
    """

    def __init__(self, directory: Path, memory: int = 1 << 28) -> None:
        self._directory = directory
        self._memory = memory
        self._hashes = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        self._count = 0

    def __enter__(self) -> "DuplicateFinder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hashes.close()

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Take note of pairs; white space around a sentence makes no difference."""
        for source, target in pairs:
            content = f"{source.strip()}\n{target.strip()}".encode()
            self._hashes.write(hashlib.blake2b(content, digest_size=16).digest())
            self._count += 1

    def found(self) -> Bool[np.ndarray, "n"]:
        """Return for each pair whether an equal one came before it. The array is on disk."""
        self._hashes.flush()
        if self._count == 0:
            return np.zeros(0, np.bool_)
        hashes = np.memmap(self._hashes, np.uint64, mode="r", shape=(self._count, 2))
        with tempfile.TemporaryFile(dir=self._directory) as scratch:
            for start in range(0, self._count, BLOCK):
                scratch.write(
                    bytes(min(BLOCK, self._count - start))
                )  # a full disk shows here, not in the mapping
            repeated = np.memmap(scratch, np.bool_, mode="r+", shape=(self._count,))
        shares = -(-self._count * BYTES_EACH // self._memory)
        for share in range(shares):
            repeated[self._repeated(hashes, share, shares)] = True
        return repeated.view(np.ndarray)

    def _repeated(self, hashes: UInt64[np.ndarray, "n 2"], share: int, shares: int) -> Int[np.ndarray, "_"]:
        """Indices of this share's pairs that came before."""
        blocks = [
            start + np.flatnonzero(hashes[start : start + BLOCK, 0] % np.uint64(shares) == share)
            for start in range(0, self._count, BLOCK)
        ]
        index = np.concatenate(blocks)
        first, second = hashes[index].T
        order = np.lexsort((index, second, first))
        first, second, index = first[order], second[order], index[order]
        same = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
        later: Int[np.ndarray, "_"] = index[1:][same]
        return later
