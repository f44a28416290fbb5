"""The output matrix on the kernels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.network import best_of_rows
from pcfgnat.runtimes.native.weights import TokenColumns
from pcfgnat.runtimes.output import SPECIAL, Best, OutputLayer

SPECIAL_COLUMNS = SPECIAL + 2  # and the normaliser and the sum of exponentials
NO_TYPES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class NativeOutput(OutputLayer):
    """The output matrix with what kernels are given."""

    operations: int
    model: Int64[np.ndarray, "_"]
    columns: TokenColumns

    def best(self, rows: Float32[np.ndarray, "R D"], types: Int64[np.ndarray, "K"] | None) -> Best:
        """Look at all types, or at these only, which must not be special."""
        chosen = NO_TYPES if types is None else types
        count = len(rows)
        score, token = np.empty(count, np.float32), np.empty(count, np.int64)
        special = np.empty((count, SPECIAL_COLUMNS), np.float32)
        best_of_rows(
            self.operations,
            self.all_or_some(chosen),
            np.ascontiguousarray(rows),
            chosen,
            score,
            token,
            special,
        )
        return Best(score, token, special[:, :SPECIAL])

    def all_or_some(self, types: Int64[np.ndarray, "K"]) -> Int64[np.ndarray, "_"]:
        """Return the model as kernels need it that look at some types, or at all if there are none."""
        return self.model if len(types) else self._of_all

    @cached_property
    def _of_all(self) -> Int64[np.ndarray, "_"]:
        """The model, with all tokens as a weight."""
        if self.model[m.ALL_TOKENS]:
            return self.model
        found = self.model.copy()
        found[m.ALL_TOKENS] = self.columns.packed()
        return found
