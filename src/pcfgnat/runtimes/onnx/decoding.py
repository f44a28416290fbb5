"""Decoding of grammars and graphs from arrays, with the kernels and rules of choice of the torch models."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.derivation import derive, greedy_choice, lookahead_choice
from pcfgnat.grammar.lengths import LengthChooser, best_with_tokens, choose_lengths, trace
from pcfgnat.runtimes.onnx.output import Emissions
from pcfgnat.structures import Hypothesis, ParseTree, Search, SupportTree

Nodes = tuple[int, ...]


@dataclass(frozen=True)
class Grammars:
    """Rules and tokens of a batch, arranged as in `RuleScores`; a graph of vertices is a grammar of depth 0.

    first_symbol: the symbol of the canvas's first node: 0 in a grammar, 1 in a graph, which has no ε
    """

    chain: Float[np.ndarray, "B C d C"]
    prefix: Float[np.ndarray, "B C R"]
    chain_lengths: Int64[np.ndarray, "B"]
    emissions: Emissions
    first_symbol: int
    threads: int

    def decode(self, search: Search, choose: LengthChooser) -> list[list[Hypothesis]]:
        """Decode every sentence; `choose` picks from the scores of all lengths those that are wanted."""
        if search.strategy == "greedy":
            nodes = self._derived(None)
            emitted = self.emissions.at([np.array(own) - self.first_symbol for own in nodes])
            wanted = len(choose([0.0], [1]))
            return [
                [self._hypothesis(index, own, *emitted[index])] * wanted for index, own in enumerate(nodes)
            ]
        scores, tokens = self._tokens()
        found = self._found(search, choose, scores)
        return [
            [self._hypothesis(i, own, scores[i, list(own)], tokens[i, list(own)]) for own in sentence]
            for i, sentence in enumerate(found)
        ]

    def _found(
        self, search: Search, choose: LengthChooser, token_scores: Float[np.ndarray, "B m"]
    ) -> list[list[Nodes]]:
        if search.strategy == "lookahead":
            return [[nodes] * len(choose([0.0], [1])) for nodes in self._derived(token_scores)]
        from pcfgnat.grammar.tables import best_by_length  # numba takes a moment

        limits = search.limits([self._support(i).max_length for i in range(len(self.chain_lengths))])
        apart = search.strategy == "viterbi" and self.first_symbol == 1  # a graph's paths without tokens
        used = np.zeros_like(token_scores) if apart else token_scores
        table = best_by_length(used, self.chain, self.prefix, self.chain_lengths, max(limits), self.threads)
        scores = table.scores.tolist()
        if not apart:
            return trace(table, choose_lengths(scores, limits, choose))
        by_length = [table.nodes([length] * len(scores)) for length in range(1, max(limits) + 1)]
        paths = [list(own) for own in zip(*by_length, strict=True)]
        chosen = choose_lengths(best_with_tokens(scores, paths, token_scores.tolist()), limits, choose)
        return [[paths[i][length - 1] for length in lengths] for i, lengths in enumerate(chosen)]

    def _tokens(self) -> tuple[Float[np.ndarray, "B m"], Int64[np.ndarray, "B m"]]:
        """Return score and token of every symbol."""
        scores, tokens = self.emissions.everywhere()
        before = ((0, 0), (self.first_symbol, 0))
        return np.pad(scores, before, constant_values=-np.inf), np.pad(tokens, before)

    def _derived(self, token_scores: Float[np.ndarray, "B m"] | None) -> list[Nodes]:
        choice = greedy_choice if token_scores is None else lookahead_choice
        return [
            derive(chain, prefix, self._support(i), choice, None if token_scores is None else token_scores[i])
            for i, (chain, prefix) in enumerate(zip(self.chain, self.prefix, strict=True))
        ]

    def _support(self, index: int) -> SupportTree:
        return SupportTree(int(self.chain_lengths[index]), self.chain.shape[2].bit_length() - 1)

    def _hypothesis(
        self, index: int, symbols: Nodes, scores: Sequence[float] | np.ndarray, tokens: np.ndarray
    ) -> Hypothesis:
        ids = tuple(tokens.tolist())
        tree = ParseTree(self._support(index), symbols, ids)
        tree = tree.scored(self.chain[index], self.prefix[index], [float(score) for score in scores])
        return Hypothesis(ids, tree.log_prob, tuple(s - self.first_symbol for s in symbols), tree)
