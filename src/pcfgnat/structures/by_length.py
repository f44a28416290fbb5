"""Decoding by length: the best structure of every length is found first, then lengths are compared."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pcfgnat.grammar.lengths import LengthChooser, best_ranked, one_by_penalty
from pcfgnat.grammar.search import Hypothesis, Search
from pcfgnat.structures.distribution import SequenceDistribution


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
        return self._decode(search, one_by_penalty(length_penalties))

    def n_best(self, search: Search) -> list[list[Hypothesis]]:
        """Return the best structures of the best lengths; where a strategy finds one only, that one."""
        if search.strategy not in self.by_length:
            return super().n_best(search)
        return self._decode(search, best_ranked(search.length_penalty, search.results))
