"""Decoding by length: the best structure of every length is found first, then lengths are compared."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import ClassVar, Protocol, runtime_checkable

from pcfgnat.structures.distribution import Hypothesis, Search, SequenceDistribution
from pcfgnat.structures.semiring import NEG_INF

# from scores and their lengths to indices of those that are wanted; -1: there is none
LengthChooser = Callable[[Sequence[float], Sequence[int]], list[int]]


@runtime_checkable
class Traceable(Protocol):
    """Best structures of every length."""

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the nodes of the best structure of the given length of each sentence."""


class ByLength(SequenceDistribution):
    """A distribution some of whose `by_length` strategies find the best structure of every length at once.

    So several length penalties, or several results, cost one pass.
    """

    by_length: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _decode(self, search: Search, choose: LengthChooser) -> list[list[Hypothesis]]:
        """Decode every sentence; `choose` picks from the scores of all lengths the indices of some."""

    def mode(self, search: Search) -> list[Hypothesis]:
        """Decode every sentence; see the class for the strategies."""
        return [best for (best,) in self.modes(search, (search.length_penalty,))]

    def modes(self, search: Search, length_penalties: Sequence[float]) -> list[list[Hypothesis]]:
        """Decode once for each penalty, in one pass."""
        return self._decode(
            search, lambda scores, lengths: [pick_length(scores, lengths, beta) for beta in length_penalties]
        )

    def n_best(self, search: Search) -> list[list[Hypothesis]]:
        """Return the best structures of the best lengths; where a strategy finds one only, that one."""
        if search.strategy not in self.by_length:
            return super().n_best(search)
        return self._decode(
            search,
            lambda scores, lengths: (
                rank_lengths(scores, lengths, search.length_penalty)[: search.results] or [-1]
            ),
        )


def pick_length(scores: Sequence[float], lengths: Sequence[int], length_penalty: float) -> int:
    """Index of the length whose `score / L^β` is best; the shorter one on a tie, -1 if all are impossible."""
    return next(iter(rank_lengths(scores, lengths, length_penalty)), -1)


def rank_lengths(scores: Sequence[float], lengths: Sequence[int], length_penalty: float) -> list[int]:
    """Indices of all possible lengths by `score / L^β`, best first, the shorter one before the longer."""
    values = [score / length**length_penalty for score, length in zip(scores, lengths, strict=True)]
    possible = [index for index, score in enumerate(scores) if score > NEG_INF]
    return sorted(possible, key=lambda index: -values[index])


def choose_lengths(
    scores: Sequence[Sequence[float]], limits: Sequence[int], choose: LengthChooser
) -> list[list[int]]:
    """Return the lengths that `choose` picks for each sentence, whose `scores` are by length from 0 on."""
    chosen = []
    for sentence, (row, limit) in enumerate(zip(scores, limits, strict=True)):
        lengths = range(1, limit + 1)
        indices = choose(row[1 : limit + 1], lengths)
        if min(indices, default=0) < 0:
            raise ValueError(f"sentence {sentence} has no derivation of at most {limit} tokens")
        chosen.append([lengths[index] for index in indices])
    return chosen


def trace(table: Traceable, chosen: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
    """Return the nodes of the best structures of the chosen lengths of each sentence."""
    columns = zip_longest(*chosen, fillvalue=2)  # one trace of the whole batch for each column
    traced = [table.nodes(list(lengths)) for lengths in columns]
    return [[nodes[index] for nodes in traced[: len(lengths)]] for index, lengths in enumerate(chosen)]
