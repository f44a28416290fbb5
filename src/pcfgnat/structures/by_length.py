"""Structures whose sentences are trees: decoding is the grammar's own, on arrays."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.lengths import LengthChooser, best_ranked, one_by_penalty
from pcfgnat.grammar.search import Hypothesis, Search, SpecialTokens
from pcfgnat.structures.distribution import Padded, SequenceDistribution
from pcfgnat.structures.ngrams import RuleUsage, window_counts


class ByLength(SequenceDistribution):
    """A grammar or a graph; `by_length` strategies find the best structure of every length at once.

    So several length penalties, or several results, cost one pass.
    """

    by_length: ClassVar[tuple[str, ...]]

    @abstractmethod
    def grammars(self, special: SpecialTokens | None) -> Grammars:
        """Return rules and tokens as arrays; special tokens stand only at the ends of a sentence."""

    @abstractmethod
    def rule_usage(self) -> RuleUsage:
        """Return the probabilities of rules and of symbols to be used; a graph is a main chain."""

    @abstractmethod
    def symbol_tokens(self, target: Padded) -> Float[Tensor, "B m N"]:
        """Return the log-probability of every target token at every symbol, of which the first derives ε."""

    def expected_ngrams(self, target: Padded, n: int) -> Float[Tensor, "B windows"]:
        """Return how often every window of n tokens of the target is expected to occur; 0 on padding."""
        return window_counts(self.rule_usage(), self.symbol_tokens(target), n)

    def expected_length(self) -> Float[Tensor, "B"]:
        """Return the expected number of tokens of a sentence, bos and eos included."""
        return self.rule_usage().expected_length

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
