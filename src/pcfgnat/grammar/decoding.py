"""Decoding of grammars and graphs from arrays, once for every structure and runtime: no torch.

A graph of vertices is a grammar of depth 0 whose vertex v is symbol v + 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.canvas import Framing, legal_rules
from pcfgnat.grammar.derivation import Chooser, derive, greedy_choice, lookahead_choice, sampled_choice
from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.grammar.lengths import LengthChooser, best_with_tokens, choose_lengths, one_by_penalty, trace
from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.grammar.support_tree import SupportTree, support_tree

Symbols = tuple[int, ...]


@runtime_checkable
class Emissions(Protocol):
    """What the nodes of a batch may emit: bos first, eos last, no special token between."""

    def everywhere(self) -> tuple[Float[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return score and token of the best emission of every node; -inf where there is none."""

    def at(
        self, nodes: Sequence[Int64[np.ndarray, "_"]]
    ) -> list[tuple[Float[np.ndarray, "_"], Int64[np.ndarray, "_"]]]:
        """Return the same of some nodes of each sentence."""

    def log_probs(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at some nodes of a sentence; -inf where not allowed.

        A shortlist is extended by the tokens that are `admitted`.
        """

    def top(self, index: int, count: int) -> tuple[Int64[np.ndarray, "M k"], Float[np.ndarray, "M k"]]:
        """Return the best tokens of every node and their log-probabilities, allowed or not, best first."""

    def leading(self, index: int, count: int) -> Int64[np.ndarray, "M k"]:
        """Return the best tokens that every node of a sentence may emit, best first, in a new array.

        They are at most `count`, as many as the vocabulary or a shortlist has; where a node may emit fewer,
        any others follow.
        """

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float[np.ndarray, "M T"]:
        """Return log-probabilities of some tokens at every node of a sentence, allowed or not.

        The array is a new one, which may be changed.
        """


@runtime_checkable
class LengthTable(Protocol):
    """The best derivation of every length, when each symbol emits its best token wherever it stands."""

    @property
    def scores(self) -> Any:
        """An array or tensor `[B, S]` by length; -inf where no derivation has it."""

    def nodes(self, lengths: list[int]) -> list[Symbols]:
        """Return the symbols of the best derivation of the given length of each sentence, in order."""


# from token scores by symbol, `[B, m]`, and the greatest length
Tabulate = Callable[[np.ndarray, int], LengthTable]
# from grammars, greatest lengths and penalties to the best sentences, rules and tokens together
Search = Callable[["Grammars", Sequence[int], Sequence[float]], list[list[Hypothesis]]]


@dataclass(frozen=True, eq=False)
class Grammars:
    """Rules and tokens of a batch, arranged as in `RuleScores`.

    chain, prefix: entries that no rule uses count for nothing, whatever they hold
    framing:       that of a grammar, whose node 0 derives ε, or of a graph, which has no such node
    tabulate:      Viterbi over (symbol, length)
    search:        what finds the best sentences by itself, if it is faster than by tables
    """

    chain: Float[np.ndarray, "B C d C"]
    prefix: Float[np.ndarray, "B C R"]
    chain_lengths: Int64[np.ndarray, "B"]
    framing: Framing
    emissions: Emissions
    tabulate: Tabulate
    search: Search | None = None

    def __len__(self) -> int:
        return len(self.chain_lengths)

    @property
    def is_graph(self) -> bool:
        """Whether the nodes are vertices of a graph."""
        return self.framing.first_node == 0

    @property
    def offset(self) -> int:
        """Symbol of node 0."""
        return 1 - self.framing.first_node

    @property
    def max_lengths(self) -> list[int]:
        """The length of the longest sentence of each grammar, bos and eos included."""
        return [self.support(index).max_length for index in range(len(self))]

    def support(self, index: int) -> SupportTree:
        """Return the support tree of a sentence, without padding."""
        return support_tree(int(self.chain_lengths[index]), self.chain.shape[2].bit_length() - 1)

    def last_node(self, index: int) -> int:
        """Return the node of a sentence that emits eos."""
        block: int = self.chain.shape[2]
        return (int(self.chain_lengths[index]) - 1) * block + 1 - self.offset

    def greedy(self) -> list[Hypothesis]:
        """Take the most probable rule at each node, and only then look at tokens."""
        found = [self._derived(index, greedy_choice) for index in range(len(self))]
        emitted = self.emissions.at([np.array(own) - self.offset for own in found])
        return [self._hypothesis(i, own, *emitted[i]) for i, own in enumerate(found)]

    def lookahead(self) -> list[Hypothesis]:
        """Choose rule and child tokens together at each node."""
        scores, tokens = self.best_tokens()
        found = [self._derived(i, lookahead_choice, scores[i]) for i in range(len(self))]
        return [self._with(i, own, scores, tokens) for i, own in enumerate(found)]

    def sample(self, generators: Sequence[np.random.Generator]) -> list[Hypothesis]:
        """Draw a tree from the root down, and a token at each of its nodes; one generator per sentence."""
        drawn = []
        for index, generator in enumerate(generators):
            symbols = self._derived(index, sampled_choice(generator))
            log_probs = self.emissions.log_probs(index, np.array(symbols) - self.offset)
            tokens = draw_rows(log_probs, generator)
            scores = log_probs[np.arange(len(tokens)), tokens]
            drawn.append(self._hypothesis(index, symbols, scores, tokens))
        return drawn

    def best(
        self, limits: Sequence[int], length_penalties: Sequence[float], joint: bool
    ) -> list[list[Hypothesis]]:
        """Return the best sentence of each grammar under each penalty; see `by_length`."""
        if joint and len(self) and self.search is not None:
            return self.search(self, limits, length_penalties)
        return self.by_length(limits, one_by_penalty(length_penalties), joint)

    def by_length(self, limits: Sequence[int], choose: LengthChooser, joint: bool) -> list[list[Hypothesis]]:
        """Find the best derivation of every length, and return those that `choose` picks.

        joint: rules and tokens together; otherwise the best by rules alone, compared with their tokens
        """
        if not len(self):
            return []
        scores, tokens = self.best_tokens()
        table = self.tabulate(scores if joint else np.zeros_like(scores), max(limits))
        by_length = table.scores.tolist()
        if joint:
            found = trace(table, choose_lengths(by_length, limits, choose))
        else:
            columns = [table.nodes([length] * len(self)) for length in range(1, max(limits) + 1)]
            paths = [list(own) for own in zip(*columns, strict=True)]
            with_tokens = best_with_tokens(by_length, paths, scores.tolist())
            chosen = choose_lengths(with_tokens, limits, choose)
            found = [[paths[i][length - 1] for length in lengths] for i, lengths in enumerate(chosen)]
        return [[self._with(i, own, scores, tokens) for own in sentence] for i, sentence in enumerate(found)]

    def best_tokens(self) -> tuple[Float[np.ndarray, "B m"], Int64[np.ndarray, "B m"]]:
        """Return score and token of the best emission of every symbol; -inf where there is none."""
        scores, tokens = self.emissions.everywhere()
        (batch, nodes), offset = scores.shape, self.offset
        if not offset:
            return scores, tokens
        padded, behind = np.full((batch, offset + nodes), -np.inf, scores.dtype), np.zeros_like(tokens)
        padded[:, offset:] = scores
        return padded, np.concatenate([behind[:, :offset], tokens], axis=1)

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float[np.ndarray, "m T"]:
        """Return log-probabilities of some tokens at every symbol of a sentence, allowed or not."""
        found = self.emissions.columns(index, tokens)
        return np.pad(found, ((self.offset, 0), (0, 0)), constant_values=-np.inf)

    def symbol_log_probs(self, index: int, admitted: Sequence[int] = ()) -> Float[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at the symbols 1, 2, … of a sentence; see `Emissions`."""
        symbols = np.arange(1, self.support(index).num_nodes)
        return self.emissions.log_probs(index, symbols - self.offset, admitted)

    def hypothesis(self, index: int, symbols: Symbols, scores: np.ndarray, tokens: np.ndarray) -> Hypothesis:
        """Return the sentence with these symbols, tokens and token scores."""
        return self._hypothesis(index, symbols, scores, tokens)

    def lattice(self, index: int, top: int) -> LatticeScores:
        """Return what is known of a sentence before it is decoded, with the best tokens of each node."""
        support = self.support(index)
        node, offset = np.arange(support.chain_length), np.arange(support.block)
        legal = legal_rules(node, offset, self.chain_lengths[index : index + 1])[0]
        size = support.chain_length
        chain = np.where(legal, self.chain[index, :size, :, :size], -np.inf)
        ids, log_probs = self.emissions.top(index, top)
        states = support.num_nodes - self.offset
        kind: Literal["dag", "pcfg"] = "dag" if self.is_graph else "pcfg"
        return LatticeScores(
            kind, support.prefix_depth, ids[:states], log_probs[:states], chain, self.prefix[index, :size]
        )

    def _derived(
        self, index: int, choice: Chooser, token_scores: Float[np.ndarray, "m"] | None = None
    ) -> Symbols:
        try:
            return derive(self.chain[index], self.prefix[index], self.support(index), choice, token_scores)
        except ValueError as error:
            raise ValueError(f"sentence {index}: {error}") from error

    def _with(self, index: int, symbols: Symbols, scores: np.ndarray, tokens: np.ndarray) -> Hypothesis:
        own = list(symbols)
        return self._hypothesis(index, symbols, scores[index, own], tokens[index, own])

    def _hypothesis(self, index: int, symbols: Symbols, scores: np.ndarray, tokens: np.ndarray) -> Hypothesis:
        ids, offset = tuple(tokens.tolist()), self.offset
        tree = ParseTree.derived(self.support(index), symbols, ids)
        tree = tree.scored(self.chain[index], self.prefix[index], scores.tolist())
        return Hypothesis(ids, tree.log_prob, tuple([s - offset for s in symbols]), tree)


def draw_rows(log_probs: Float[np.ndarray, "n V"], generator: np.random.Generator) -> Int64[np.ndarray, "n"]:
    """Draw a column of each row by its probability; rows need not sum to 1."""
    highest = log_probs.max(axis=1, keepdims=True).astype(np.float64)
    upto = np.exp(log_probs - highest).cumsum(axis=1)
    threshold = generator.random(len(log_probs)) * upto[:, -1]
    drawn: np.ndarray = (upto <= threshold[:, None]).sum(axis=1)
    return drawn.clip(max=log_probs.shape[1] - 1).astype(np.int64)
