"""What the nodes of a batch emit, as the kernels have found it."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64, UInt8

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


@dataclass(frozen=True)
class NativeEmissions(Emissions):
    """Best tokens that are known already."""

    drafted: Drafted | None = None

    @classmethod
    def of(
        cls, output: NativeOutput, states: Float32[np.ndarray, "rows D"], drafted: Drafted, first: int
    ) -> "NativeEmissions":
        """Return what the nodes of a batch emit."""
        bounds, types = drafted.bounds.tolist(), None
        if bounds[-1] > 0:
            types = [drafted.types[begin:end] for begin, end in pairwise(bounds)]
        lengths = drafted.spans[:, 1] - drafted.spans[:, 0]
        return cls(output, by_sentence(states, drafted.spans), lengths, first, types, None, drafted)

    def everywhere(self) -> tuple[Float32[np.ndarray, "B M"], Int64[np.ndarray, "B M"]]:
        """Return score and token of every node; -inf where there is none."""
        assert self.drafted is not None
        return self.drafted.score, self.drafted.token

    @cached_property
    def _plain_everywhere(self) -> list[Best]:
        assert self.drafted is not None
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
