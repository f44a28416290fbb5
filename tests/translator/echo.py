"""A runtime that repeats its sources: a grammar of one chain, whose nodes emit the source's tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.canvas import GRAMMAR
from pcfgnat.grammar.decoding import Grammars, LengthTable
from pcfgnat.grammar.tables import best_by_length
from pcfgnat.runtimes.base import Sources

TOKEN, OTHER, JUMP = -1.0, -3.0, -0.5


class Echo:
    """Translates every sentence into itself, for a score of -1 a token; the next best lack its last words.

    A sentence has at least one word, and draws may have any tokens but special ones. Trees are plain chains.
    """

    def __init__(self, longest: int, vocabulary: int) -> None:
        self.max_source_length = longest
        self.vocabulary = vocabulary
        self.batches: list[int] = []

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield all sources at once."""
        lengths = np.array([len(source) for source in sources])
        assert lengths.max() <= self.max_source_length
        self.batches.append(len(sources))
        batch, longest = len(lengths), int(lengths.max())
        chain = np.full((batch, longest, 1, longest), -np.inf)
        for table, length in zip(chain, lengths, strict=True):
            table[np.arange(1, length - 1), 0, length - 1] = JUMP  # to the end, from any word
            table[np.arange(length - 1), 0, np.arange(1, length)] = 0.0
        prefix = np.zeros((batch, longest, 0))

        def tabulate(tokens: np.ndarray, limit: int) -> LengthTable:
            return best_by_length(tokens, chain, prefix, lengths, limit)

        emissions = Repeated(sources, self.vocabulary, longest + 1)
        yield range(batch), Grammars(chain, prefix, lengths, GRAMMAR, emissions, tabulate)


@dataclass(frozen=True)
class Repeated:
    """Node i emits token i - 1 of the source, and in draws others too."""

    sources: Sources
    vocabulary: int
    nodes: int

    def everywhere(self) -> tuple[Float[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return scores and tokens of all nodes."""
        shape = (len(self.sources), self.nodes)
        scores, tokens = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int64)
        for index, source in enumerate(self.sources):
            scores[index, 1 : len(source) + 1], tokens[index, 1 : len(source) + 1] = TOKEN, source
        return scores, tokens

    def at(
        self, nodes: Sequence[Int64[np.ndarray, "_"]]
    ) -> list[tuple[Float[np.ndarray, "_"], Int64[np.ndarray, "_"]]]:
        """Return scores and tokens of some nodes."""
        scores, tokens = self.everywhere()
        return [(scores[i, own], tokens[i, own]) for i, own in enumerate(nodes)]

    def log_probs(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float[np.ndarray, "n V"]:
        """Return what draws are made from: at both ends the source's token alone."""
        source = self.sources[index]
        rows = np.full((len(nodes), self.vocabulary), OTHER)
        rows[:, :4] = -np.inf
        for row, node in zip(rows, nodes.tolist(), strict=True):
            if node in (1, len(source)):
                row[:] = -np.inf
            row[source[node - 1]] = TOKEN
        return rows

    def top(self, index: int, count: int) -> tuple[Int64[np.ndarray, "M k"], Float[np.ndarray, "M k"]]:
        """Return the one token of every node."""
        scores, tokens = self.everywhere()
        return tokens[index, :, None], scores[index, :, None]

    def leading(self, index: int, count: int) -> Int64[np.ndarray, "M k"]:
        """Return the one token of every node."""
        return self.everywhere()[1][index, :, None]

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float[np.ndarray, "M T"]:
        """Return log-probabilities of some tokens at every node."""
        found = np.full((self.nodes, self.vocabulary), -np.inf)
        nodes = np.arange(1, len(self.sources[index]) + 1)
        found[nodes] = self.log_probs(index, nodes)
        return found[:, tokens]
