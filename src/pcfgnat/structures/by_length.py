"""Structures whose sentences are trees: decoding is the grammar's own, on arrays."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.lengths import LengthChooser, best_ranked, one_by_penalty
from pcfgnat.grammar.search import Hypothesis, Search, SpecialTokens
from pcfgnat.structures.distribution import SequenceDistribution


class ByLength(SequenceDistribution):
    """A grammar or a graph; `by_length` strategies find the best structure of every length at once.

    So several length penalties, or several results, cost one pass.
    """

    by_length: ClassVar[tuple[str, ...]]

    @abstractmethod
    def grammars(self, special: SpecialTokens | None) -> Grammars:
        """Return rules and tokens as arrays; special tokens stand only at the ends of a sentence."""

    def mode(self, search: Search) -> list[Hypothesis]:
        """Decode every sentence; see the class for the strategies."""
        return [best for (best,) in self.modes(search, (search.length_penalty,))]

    def modes(self, search: Search, length_penalties: Sequence[float]) -> list[list[Hypothesis]]:
        """Decode once for each penalty, in one pass."""
        return self._decode(search, one_by_penalty(length_penalties), len(length_penalties))

    def n_best(self, search: Search) -> list[list[Hypothesis]]:
        """Return the best structures of the best lengths; where a strategy finds one only, that one."""
        return self._decode(search, best_ranked(search.length_penalty, search.results), 1)

    def _decode(self, search: Search, choose: LengthChooser, copies: int) -> list[list[Hypothesis]]:
        search.require("greedy", "lookahead", *self.by_length)
        with torch.no_grad():
            grammars = self.grammars(search.special_tokens)
            if search.strategy in self.by_length:
                joint = search.strategy == self.by_length[-1]
                return grammars.by_length(search.limits(grammars.max_lengths), choose, joint)
            found = grammars.greedy() if search.strategy == "greedy" else grammars.lookahead()
            return [[hypothesis] * copies for hypothesis in found]


def as_float(scores: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Put token scores where a structure's tables are."""
    return torch.from_numpy(scores).to(like)
