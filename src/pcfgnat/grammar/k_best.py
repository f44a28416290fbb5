"""The best different sentences of a grammar, exactly, over all trees and the whole vocabulary.

The best sentence is found, and what remains is cut into regions by where a sentence first differs from it
(Lawler 1972): each region has a fixed beginning and some tokens that may not follow it. The table of free
continuations answers for every region and length at once, so that no sentence comes twice, however many
trees it has. `kernels/k_best.py` does all of that in one call.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.free_lattice import FreeLattice, length_powers
from pcfgnat.grammar.kernels.k_best import (
    align_columns,
    find_sentences,
    number_tokens,
    restrict_columns,
    score_sentences,
)
from pcfgnat.grammar.search import Hypothesis, SpecialTokens
from pcfgnat.grammar.tokens import best_columns

FIRST_SENTENCES = 16  # for which there is room at first


@dataclass(frozen=True, eq=False)
class LeadingTokens:
    """The tokens that the best sentences can have.

    ids:     all of them, each once
    columns: their log-probability at all nodes, -inf where they may not stand
    leading: the best of each node, best first, as columns
    """

    ids: Int64[np.ndarray, "U"]
    columns: Float[np.ndarray, "M U"]
    leading: Int64[np.ndarray, "M k"]

    @classmethod
    def of(cls, grammars: Grammars, index: int, count: int, special: SpecialTokens) -> "LeadingTokens":
        """Return the `count` best tokens of each node of a sentence.

        The best token of a node is the one that other strategies see, whatever rounding does to the others:
        so the first of several results is what is found alone.
        """
        emissions = grammars.emissions
        scores, best = (found[index] for found in emissions.everywhere())
        leading = emissions.leading(index, count)
        ids = number_tokens(leading, best)
        columns = restricted_columns(grammars, index, ids, special)
        align_columns(columns, leading, scores)
        return cls(ids, columns, leading)

    @classmethod
    def from_table(cls, tokens: Float[np.ndarray, "M V"], count: int) -> "LeadingTokens":
        """Return the best of all tokens, whose log-probabilities are given for all nodes."""
        return cls(np.arange(tokens.shape[1]), np.ascontiguousarray(tokens), best_columns(tokens, count))


@dataclass(frozen=True, eq=False)
class RankedSentences:
    """Different sentences of one grammar, best first; what lies beyond their lengths is rubbish.

    scores: of the best tree of each
    """

    symbols: Int64[np.ndarray, "k N"]
    ids: Int64[np.ndarray, "k N"]
    token_scores: Float[np.ndarray, "k N"]
    lengths: Int64[np.ndarray, "k"]
    scores: Float[np.ndarray, "k"]

    @classmethod
    def empty(cls, count: int, longest: int) -> "RankedSentences":
        """Return room for so many sentences."""
        symbols, ids = np.zeros((2, count, longest), dtype=np.int64)
        return cls(symbols, ids, np.empty((count, longest)), np.empty(count, dtype=np.int64), np.empty(count))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return all arrays, as kernels fill them."""
        return self.symbols, self.ids, self.token_scores, self.lengths, self.scores

    def first(self, count: int) -> "RankedSentences":
        """Return the first of them."""
        return self if count == len(self) else RankedSentences(*(array[:count] for array in self.arrays))

    def hypothesis(self, grammars: Grammars, index: int, place: int) -> Hypothesis:
        """Return a sentence with its tree, which is one of a sentence of a batch."""
        length = self.lengths[place]
        symbols = tuple(self.symbols[place, :length].tolist())
        return grammars.hypothesis(
            index, symbols, self.token_scores[place, :length], self.ids[place, :length]
        )


def best_sentences(
    lattice: FreeLattice, tokens: LeadingTokens, max_length: int, length_penalty: float, count: int
) -> RankedSentences:
    """Return up to `count` different sentences by `score / L^β` of their best tree, best first.

    `tokens` must have the `count` best of each node. A further sentence of L tokens takes L times
    `C²/2 · d` steps for its beginnings, and `C · X · N` for the best of what follows each.
    """
    columns, leading = tokens.columns, tokens.leading
    table = lattice.continuations(columns[np.arange(len(columns)), leading[:, 0]], max_length)
    problem = (*lattice, tokens.ids, columns, leading, table, length_powers(max_length, length_penalty))
    searched = _Searched.empty(lattice, min(count, FIRST_SENTENCES) * (max_length + 1))
    found = RankedSentences.empty(count, max_length)
    while find_sentences(*problem, *searched.arrays, *found.arrays):
        searched = searched.doubled()
    return found.first(searched.found)


def scored_sentences(
    grammars: Grammars, index: int, sentences: Sequence[Sequence[int]], special: SpecialTokens
) -> RankedSentences:
    """Return given sentences, in order, with their best trees of one grammar; -inf is the score of none."""
    lattice, lengths = FreeLattice.of(grammars, index), np.array([len(ids) for ids in sentences])
    width = int(lengths.max())
    padded = np.array([[*own, *[own[0]] * (width - len(own))] for own in sentences], dtype=np.int64)
    ids, texts = np.unique(padded, return_inverse=True)
    columns, texts = restricted_columns(grammars, index, ids, special), texts.reshape(padded.shape)
    prefixes, found = _Searched.empty(lattice, width + 1).arrays, RankedSentences.empty(*padded.shape)
    *written, _, scores = found.arrays
    score_sentences(*lattice, ids, columns, texts, lengths, *prefixes[:6], prefixes[-1], *written, scores)
    return replace(found, lengths=lengths)


def restricted_columns(
    grammars: Grammars, index: int, tokens: Int64[np.ndarray, "T"], special: SpecialTokens
) -> Float[np.ndarray, "M T"]:
    """Return log-probabilities of some tokens at all nodes of a sentence, -inf where they may not stand."""
    columns = grammars.emissions.columns(index, tokens)
    first, last = grammars.framing.first_node, grammars.last_node(index)
    restrict_columns(tokens, columns, first, last, special.bos, special.eos, special.ids)
    return columns


@dataclass(frozen=True, eq=False)
class _Searched:
    """Prefixes and regions that have been looked at; see `kernels/k_best.py`."""

    arrays: tuple[np.ndarray, ...]

    @classmethod
    def empty(cls, lattice: FreeLattice, room: int) -> "_Searched":
        """Return room for so many prefixes and regions, of which there is only the empty prefix."""
        states = (room, lattice.chain_length, len(lattice.offsets))
        numbers = np.empty((7, room), dtype=np.int64)
        fronts, came, weights = np.empty(states), np.empty(states, dtype=np.int64), np.empty((2, room))
        fronts[0] = lattice.front()
        ended, costs = weights
        parents, last, given, link_tokens, link_next, lengths, prefixes = numbers
        ended[0], given[0] = -np.inf, 0
        excluded, may_end = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.bool_)
        used = np.zeros(4, dtype=np.int64)
        before = (fronts, came, ended, parents, last, given, link_tokens, link_next)
        return cls((*before, costs, lengths, prefixes, excluded, may_end, used))

    @property
    def found(self) -> int:
        """Return how many sentences have been found."""
        return int(self.arrays[-1][3])

    def doubled(self) -> "_Searched":
        """Return the same with twice the room."""
        *grown, used = self.arrays
        return _Searched((*(np.concatenate([array, np.empty_like(array)]) for array in grown), used))
