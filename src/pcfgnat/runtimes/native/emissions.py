"""What the nodes of a batch emit, as the kernels have found it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from pcfgnat.runtimes.native.kernels.looking import columns_of, leading_tokens
from pcfgnat.runtimes.native.output import NativeOutput
from pcfgnat.runtimes.output import SPECIAL, Best, Emissions


class Drafted(NamedTuple):
    """The nodes of some sentences, one under the other; see `kernels.network.draft`.

    bytes, scales: the states of nodes
    types:         the shortlists, one after the other, that of sentence b from `bounds[b]` on; none if empty
    """

    bytes: UInt8[np.ndarray, "rows D"]
    scales: Float32[np.ndarray, "rows"]
    spans: Int64[np.ndarray, "B 2"]
    types: Int64[np.ndarray, "all"]
    bounds: Int64[np.ndarray, "B_and_one"]
    row_score: Float32[np.ndarray, "rows"]
    row_token: Int64[np.ndarray, "rows"]
    special: Float32[np.ndarray, "rows 6"]
    score: Float32[np.ndarray, "B M"]
    token: Int64[np.ndarray, "B M"]


class Rows(NamedTuple):
    """The nodes of one sentence."""

    bytes: UInt8[np.ndarray, "M D"]
    scales: Float32[np.ndarray, "M"]
    special: Float32[np.ndarray, "M 6"]


@dataclass(frozen=True, kw_only=True)
class NativeEmissions(Emissions):
    """Best tokens that are known already."""

    output: NativeOutput
    drafted: Drafted

    @classmethod
    def of(
        cls, output: NativeOutput, states: Float32[np.ndarray, "rows D"], drafted: Drafted, first: int
    ) -> "NativeEmissions":
        """Return what the nodes of a batch emit."""
        bounds, types = drafted.bounds.tolist(), None
        if bounds[-1] > 0:
            types = [drafted.types[begin:end] for begin, end in pairwise(bounds)]
        lengths = drafted.spans[:, 1] - drafted.spans[:, 0]
        rows = by_sentence(states, drafted.spans)
        return cls(output, rows, lengths, first, types, output=output, drafted=drafted)

    def everywhere(self) -> tuple[Float32[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return score and token of every node; -inf where there is none."""
        return self.drafted.score, self.drafted.token

    def leading(self, index: int, count: int) -> Int64[np.ndarray, "M k"]:
        """Return the best tokens that every node of a sentence may emit, best first."""
        types = self.chosen(index)
        own, output = self.nodes(index), self.output
        most = len(types) if len(types) else len(output.tokens) - SPECIAL
        rows = np.empty((len(own.scales), min(count, most)), np.int64)
        leading_tokens(output.operations, output.all_or_some(types), own.bytes, own.scales, types, rows)
        for node, special in self._ends(index):
            rows[node, 0] = special
        return self._padded(rows, 0.0)

    def columns(self, index: int, tokens: Int64[np.ndarray, "T"]) -> Float32[np.ndarray, "M T"]:
        """Return log-probabilities of some tokens at every node of a sentence, allowed or not."""
        own, output = self.nodes(index), self.output
        found = columns_of(output.operations, output.model, tokens, own.bytes, own.scales, own.special)[
            :, : len(tokens)
        ]
        found[: self.first] = -np.inf
        return self._padded(found, -np.inf)

    def rows(
        self, index: int, nodes: Int64[np.ndarray, "n"], admitted: Sequence[int] = ()
    ) -> Float32[np.ndarray, "n V"]:
        """Return log-probabilities of all tokens at some nodes of a sentence, without any restriction.

        The normaliser is that of the shortlist, whatever is admitted to it.
        """
        types, own, output = self.chosen(index), self.nodes(index), self.output
        vocabulary = len(output.tokens)
        wanted = np.arange(vocabulary)
        if len(types):
            wanted = np.unique(np.concatenate([wanted[:SPECIAL], types, np.array(admitted, dtype=np.int64)]))
        given = (own.bytes[nodes], own.scales[nodes], own.special[nodes])
        found = np.full((len(nodes), vocabulary), -np.inf, np.float32)
        found[:, wanted] = columns_of(output.operations, output.model, wanted, *given)[:, : len(wanted)]
        return found

    def chosen(self, index: int) -> Int64[np.ndarray, "K"]:
        """Return the shortlist of a sentence; empty, if all tokens are looked at."""
        return self.drafted.types[self.drafted.bounds[index] : self.drafted.bounds[index + 1]]

    def nodes(self, index: int) -> "Rows":
        """Return the nodes of a sentence."""
        drafted = self.drafted
        own = slice(*drafted.spans[index].tolist())
        return Rows(drafted.bytes[own], drafted.scales[own], drafted.special[own])

    def _padded(self, rows: np.ndarray, filler: float) -> np.ndarray:
        """Return the rows of a sentence's nodes with as many more as the longest of the batch has."""
        more = (self.drafted.score.shape[1] - len(rows), rows.shape[1])
        return np.concatenate([rows, np.full(more, filler, rows.dtype)]) if more[0] else rows

    @cached_property
    def _plain_everywhere(self) -> list[Best]:
        drafted, first = self.drafted, self.first
        parts = [slice(begin + first, end) for begin, end in drafted.spans.tolist()]
        return [Best(drafted.row_score[p], drafted.row_token[p], drafted.special[p, :SPECIAL]) for p in parts]


def by_sentence(
    states: Float32[np.ndarray, "rows D"], spans: Int64[np.ndarray, "B 2"]
) -> Float32[np.ndarray, "B M D"]:
    """Return states of sentences side by side, padded to the longest."""
    if len(spans) == 1:
        return states[None]
    padded = np.zeros((len(spans), int((spans[:, 1] - spans[:, 0]).max()), states.shape[1]), np.float32)
    for b, (begin, end) in enumerate(spans.tolist()):
        padded[b, : end - begin] = states[begin:end]
    return padded
