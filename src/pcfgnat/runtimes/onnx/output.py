"""The output matrix on onnxruntime: the best token of each row, with its probability."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.runtimes.onnx.sessions import Session
from pcfgnat.runtimes.output import SPECIAL, Best, OutputLayer

BLOCK_TYPES = 2048  # of the exact graph; scores of a block stay in the cache
CHUNK_ROWS = 1024


@dataclass(frozen=True)
class OnnxOutput(OutputLayer):
    """Two graphs, of all types and of selected ones; each is loaded when it is first needed."""

    exact: Callable[[], Session]
    selected: Callable[[], Session]

    def best(self, rows: Float32[np.ndarray, "R D"], types: Int64[np.ndarray, "K"] | None) -> Best:
        """Look at all types, or at these only, which must not be special."""
        if types is None:
            parts = [self._all(rows[start : start + CHUNK_ROWS]) for start in range(0, len(rows), CHUNK_ROWS)]
            columns = zip(*((part.score, part.token, part.special) for part in parts), strict=True)
            return Best(*map(np.concatenate, columns)) if len(parts) > 1 else parts[0]
        feed = {"rows": rows, "weight": self.tokens[types]}
        if self.scales is not None:
            feed["scale"] = self.scales[types]
        found = self.selected()(feed)
        score, place, special = _normalised(found)
        return Best(score, types[place], special)

    def _all(self, rows: Float32[np.ndarray, "R D"]) -> Best:
        score, place, special = _normalised(self.exact()({"rows": rows}))
        return Best(score, place + SPECIAL, special)


def _normalised(
    found: Mapping[str, np.ndarray],
) -> tuple[Float32[np.ndarray, "R"], Int64[np.ndarray, "R"], Float32[np.ndarray, "R 4"]]:
    """Put the blocks together: log-probability and place of the best, and the special tokens'."""
    best, special = found["best"].astype(np.float64), found["special"].astype(np.float64)
    highest, place = best[:, 0], found["place"][:, 0]
    if best.shape[1] > 1:
        row, block = np.arange(len(best)), best.argmax(1)
        highest, place = best[row, block], found["place"][row, block] + block * BLOCK_TYPES
    top = np.maximum(highest, special.max(1))[:, None]
    mass = (found["mass"] * np.exp(best - top)).sum(1) + np.exp(special - top).sum(1)
    normaliser = top[:, 0] + np.log(mass)
    score = (highest - normaliser).astype(np.float32)
    return score, place.astype(np.int64), (special - normaliser[:, None]).astype(np.float32)
