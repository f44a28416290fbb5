"""Viterbi over tables of rules, as decoding asks for it, for runtimes without torch."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.decoding import LengthTable


@dataclass(frozen=True, eq=False)
class Tabulate:
    """The rules of a batch; `threads` share its sentences."""

    chain: Float[np.ndarray, "B C d C"]
    prefix: Float[np.ndarray, "B C R"]
    chain_lengths: Int64[np.ndarray, "B"]
    threads: int

    def __call__(self, token_scores: np.ndarray, limit: int) -> LengthTable:
        """Return the best derivations by length, from token scores by symbol."""
        from pcfgnat.grammar.tables import best_by_length  # numba takes a moment

        return best_by_length(token_scores, self.chain, self.prefix, self.chain_lengths, limit, self.threads)
