"""From states to tokens, whichever runtime has the output matrix: the best of each node, and all others."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Float32, Int64

from pcfgnat.grammar.tokens import best_columns
from pcfgnat.text.special import SPECIAL_TOKENS

SPECIAL = 4  # the first ids, which are scored apart


@dataclass(frozen=True)
class Best:
    """Of each row of states the best plain token and its log-probability, and those of the special tokens."""

    score: Float32[np.ndarray, "R"]
    token: Int64[np.ndarray, "R"]
    special: Float32[np.ndarray, "R 4"]


@dataclass(frozen=True)
class OutputLayer(ABC):
    """The output matrix, used whole or in part."""

    tokens: np.ndarray  # V D, of int8 if there are scales
    scales: Float32[np.ndarray, "V"] | None

    @abstractmethod
    def best(self, rows: Float32[np.ndarray, "R D"], types: Int64[np.ndarray, "K"] | None) -> Best:
        """Look at all types, or at these only, which must not be special."""

    def log_probs(
        self, rows: Float32[np.ndarray, "R D"], types: Int64[np.ndarray, "K"] | None
    ) -> Float32[np.ndarray, "R V"]:
        """Return log-probabilities of all tokens, slowly; with `types` only of these and special ones."""
        looked_at = slice(None) if types is None else np.concatenate([np.arange(SPECIAL), types])
        scores: np.ndarray = rows @ self.weights(looked_at).T
        scores -= scores.max(1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(1, keepdims=True))
        if types is None:
            return scores
        everywhere = np.full((len(rows), len(self.tokens)), -np.inf, dtype=np.float32)
        everywhere[:, looked_at] = scores
        return everywhere

    def weights(self, tokens: Int64[np.ndarray, "T"] | slice) -> Float32[np.ndarray, "T D"]:
        """Return the rows of the output matrix of some tokens."""
        rows: np.ndarray = self.tokens[tokens].astype(np.float32)
        scaled: np.ndarray = rows if self.scales is None else rows * self.scales[tokens, None]
        return scaled


@dataclass(frozen=True)
class Emissions:
    """What the nodes of a batch emit: see `grammar.decoding.Emissions`; bos is emitted at node `first`.

    `types` are the shortlists of the sentences; without them the whole vocabulary is looked at. A `blank` is
    a special token that nodes between the ends may emit.
    """

    layer: OutputLayer
    states: Float32[np.ndarray, "B M D"]
    lengths: Int64[np.ndarray, "B"]
    first: int
    types: Sequence[Int64[np.ndarray, "_"]] | None = None
    blank: int | None = None

    def everywhere(self) -> tuple[Float32[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return score and token of every node; -inf where there is none."""
        shape = self.states.shape[:2]
        score, token = np.full(shape, -np.inf, dtype=np.float32), np.zeros(shape, dtype=np.int64)
        first, special = self.first, SPECIAL_TOKENS
        for index, (last, found) in enumerate(
            zip(self.lengths.tolist(), self._plain_everywhere, strict=True)
        ):
            if self.blank is not None:
                nodes = self._nodes[index]
                score[index, nodes], token[index, nodes] = self._restricted(index, nodes, found)
                continue
            score[index, first:last], token[index, first:last] = found.score, found.token
            score[index, first], token[index, first] = found.special[0, special.bos], special.bos
            score[index, last - 1], token[index, last - 1] = found.special[-1, special.eos], special.eos
        return score, token

    def at(
        self, nodes: Sequence[Int64[np.ndarray, "_"]]
    ) -> list[tuple[Float32[np.ndarray, "_"], Int64[np.ndarray, "_"]]]:
        """Return scores and tokens of some nodes of each sentence."""
        return [self._restricted(i, nodes[i], found) for i, found in enumerate(self.plain(nodes))]

    def plain(self, nodes: Sequence[Int64[np.ndarray, "_"]]) -> list[Best]:
        """Return the same without any restriction."""
        return self._of_rows([self.states[i, own] for i, own in enumerate(nodes)])

    def _of_rows(self, rows: Sequence[Float32[np.ndarray, "_ D"]]) -> list[Best]:
        if self.types is not None:
            return [self.layer.best(own, types) for own, types in zip(rows, self.types, strict=True)]
        found = self.layer.best(np.concatenate(rows), None)
        cuts = np.cumsum([len(own) for own in rows])[:-1]
        parts = (np.split(values, cuts) for values in (found.score, found.token, found.special))
        return [Best(*part) for part in zip(*parts, strict=True)]

    def log_probs(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float32[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at some nodes of a sentence; -inf where not allowed."""
        rows = self.rows(index, nodes, admitted)
        allowed = rows.copy()
        allowed[:, [token for token in SPECIAL_TOKENS.ids if token != self.blank]] = -np.inf
        for node, special in self._ends(index):
            here = nodes == node
            allowed[here] = -np.inf
            allowed[here, special] = rows[here, special]
        return allowed

    def top(self, index: int, count: int) -> tuple[Int64[np.ndarray, "M k"], Float32[np.ndarray, "M k"]]:
        """Return the best tokens of every node and their log-probabilities, allowed or not, best first."""
        rows = self.layer.log_probs(self.states[index], None)
        ids = np.argsort(-rows, axis=1, kind="stable")[:, :count]
        return ids, np.take_along_axis(rows, ids, 1)

    def leading(self, index: int, count: int) -> Int64[np.ndarray, "M k"]:
        """Return the best tokens that every node of a sentence may emit, best first."""
        types = np.arange(SPECIAL, len(self.layer.tokens)) if self.types is None else self.types[index]
        rows = self.states[index] @ self.layer.weights(types).T
        found: np.ndarray = types[best_columns(rows, count)]
        for node, special in self._ends(index):
            found[node, 0] = special
        return found

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float32[np.ndarray, "M T"]:
        """Return log-probabilities of some tokens at every node of a sentence, allowed or not."""
        first, last = self.first, int(self.lengths[index])
        states, normaliser = self.states[index, first:last], self._normalisers[index]
        found = np.full((self.states.shape[1], len(tokens)), -np.inf, dtype=np.float32)
        found[first:last] = states @ self.layer.weights(tokens).T - normaliser
        return found

    def rows(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float32[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at some nodes of a sentence, without any restriction."""
        types = None if self.types is None else self.types[index]
        if types is not None and len(admitted):
            types = np.union1d(types, np.array(admitted, dtype=np.int64))
        return self.layer.log_probs(self.states[index, nodes], types)

    @cached_property
    def _nodes(self) -> list[Int64[np.ndarray, "_"]]:
        """The nodes of each sentence."""
        return [np.arange(self.first, length) for length in self.lengths]

    @cached_property
    def _plain_everywhere(self) -> list[Best]:
        lengths = self.lengths.tolist()
        return self._of_rows([self.states[i, self.first : last] for i, last in enumerate(lengths)])

    @cached_property
    def _normalisers(self) -> list[Float32[np.ndarray, "_ 1"]]:
        """Normalisers of all nodes: they follow from the best tokens, whose log-probabilities are known."""
        found = []
        for states, nodes, best in zip(self.states, self._nodes, self._plain_everywhere, strict=True):
            scores = (states[nodes] * self.layer.weights(best.token)).sum(1, keepdims=True)
            found.append(scores - best.score[:, None])
        return found

    def _ends(self, index: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the nodes that emit bos and eos, with these."""
        last = int(self.lengths[index]) - 1
        return (self.first, SPECIAL_TOKENS.bos), (last, SPECIAL_TOKENS.eos)

    def _restricted(
        self, index: int, nodes: Int64[np.ndarray, "_"], found: Best
    ) -> tuple[Float[np.ndarray, "_"], Int64[np.ndarray, "_"]]:
        score, token = found.score.copy(), found.token.copy()
        if self.blank is not None:
            here = found.special[:, self.blank] >= score
            score[here], token[here] = found.special[here, self.blank], self.blank
        for node, special in self._ends(index):
            here = nodes == node
            score[here], token[here] = found.special[here, special], special
        return score, token
