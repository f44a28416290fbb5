"""Sources with several targets, such as a person's and a teacher's: pairs of a corpus by their source."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64, Integer

from pcfgnat.text.corpus import ParallelCorpus


@dataclass(frozen=True, eq=False)
class TargetGroups:
    """Pairs of equal source, in the order of the corpus.

    members: pairs, those of one source after the other
    starts:  where the pairs of each source begin, and where the last ones end
    """

    members: Int64[np.ndarray, "pairs"]
    starts: Int64[np.ndarray, "sources_and_one"]

    @classmethod
    def of(cls, corpus: ParallelCorpus) -> "TargetGroups":
        """Compare all sources, by 16 bytes of hash each."""
        digests = np.empty((len(corpus), 2), dtype=np.uint64)
        for index, (source, _) in enumerate(corpus):
            digest = hashlib.blake2b(np.ascontiguousarray(source).tobytes(), digest_size=16).digest()
            digests[index] = np.frombuffer(digest, dtype=np.uint64)
        _, group = np.unique(digests, axis=0, return_inverse=True)
        members = np.argsort(group.reshape(-1), kind="stable").astype(np.int64)
        bounds = np.flatnonzero(np.diff(group.reshape(-1)[members])) + 1
        starts = np.concatenate([[0], bounds, [len(corpus)]]).astype(np.int64)
        return cls(members, starts if len(corpus) else starts[:1])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Int64[np.ndarray, "sources"]:
        """How many targets each source has."""
        sizes: np.ndarray = np.diff(self.starts)
        return sizes

    @property
    def first(self) -> Int64[np.ndarray, "sources"]:
        """The first pair of each source."""
        pairs: np.ndarray = self.members[self.starts[:-1]]
        return pairs

    def drawn(self, seed: int, epoch: int) -> Int64[np.ndarray, "sources"]:
        """Return one pair of each source, in the corpus's order; the same for the same seed and epoch."""
        chance = np.random.default_rng((seed, epoch, 1)).random(len(self))
        chosen = self.starts[:-1] + (chance * self.sizes).astype(np.int64)
        taken: np.ndarray = np.sort(self.members[chosen])
        return taken

    def of_pair(self, pair: int) -> list[int]:
        """Return all pairs that have the source of the first pair `pair`."""
        group = self._by_first[pair]
        found: list[int] = self.members[self.starts[group] : self.starts[group + 1]].tolist()
        return found

    def longest(self, lengths: Integer[np.ndarray, "pairs"]) -> Integer[np.ndarray, "pairs"]:
        """Return lengths of targets, where that of a source's first pair is the longest of all."""
        found = lengths.copy()
        found[self.first] = np.maximum.reduceat(lengths[self.members], self.starts[:-1])
        return found

    @cached_property
    def _by_first(self) -> dict[int, int]:
        return {pair: group for group, pair in enumerate(self.first.tolist())}
