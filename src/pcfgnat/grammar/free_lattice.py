"""One sentence's lattice as the kernels take it, and its best continuations when every node is free."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.block_plan import block_plan
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.kernels.drafts import fill_free


class FreeLattice(NamedTuple):
    """Contiguous rules of one dtype, the states of a block (see `BlockPlan`), and the symbol of node 0."""

    chain: np.ndarray
    prefix: np.ndarray
    chain_length: int
    offsets: np.ndarray
    lefts: np.ndarray
    moves: np.ndarray
    first: np.ndarray
    entries: np.ndarray
    offset: int

    @classmethod
    def of(cls, grammars: Grammars, index: int) -> "FreeLattice":
        """Return the lattice of one sentence."""
        length = int(grammars.chain_lengths[index])
        return cls.from_rules(grammars.chain[index], grammars.prefix[index], length, grammars.offset)

    @classmethod
    def from_rules(
        cls,
        chain: Float[np.ndarray, "C d C"],
        prefix: Float[np.ndarray, "C R"],
        chain_length: int,
        offset: int = 0,
    ) -> "FreeLattice":
        """Return the lattice of rules; what lies beyond `chain_length` is never looked at."""
        plan, chain = block_plan(chain.shape[1].bit_length() - 1), np.ascontiguousarray(chain)
        states = (plan.offsets, plan.lefts, plan.moves, plan.first, plan.entries)
        return cls(chain, np.ascontiguousarray(prefix, dtype=chain.dtype), chain_length, *states, offset)

    def continuations(self, scores: Float[np.ndarray, "M"], longest: int) -> Float[np.ndarray, "C Y N"]:
        """Return the best continuation of up to `longest` tokens from each state, by nodes' best tokens."""
        table = np.empty((self.chain_length, len(self.offsets) + 1, longest + 1))
        fill_free(*self, scores, table)
        return table

    def front(self) -> Float[np.ndarray, "C X"]:
        """Return the best way to every state behind the empty prefix: the root emits first."""
        front = np.full((self.chain_length, len(self.offsets)), -np.inf)
        front[0, len(self.offsets) - self.chain.shape[1]] = 0.0
        return front


@lru_cache(maxsize=256)
def length_powers(longest: int, length_penalty: float) -> Float[np.ndarray, "N"]:
    """Return `L^β` of all lengths up to `longest`, from 0 on, where it is 1; nobody may change it."""
    return np.array([1.0, *(length**length_penalty for length in range(1, longest + 1))])
