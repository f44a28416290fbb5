"""The output matrix on the kernels."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from pcfgnat.runtimes.native.kernels.output import TOKEN_MIDDLE, best_tokens
from pcfgnat.runtimes.output import Best, OutputLayer

NO_TYPES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class NativeOutput(OutputLayer):
    """Rows of all tokens as bytes around 64."""

    unsigned: UInt8[np.ndarray, "V D"]

    @classmethod
    def of(cls, tokens: np.ndarray, scales: np.ndarray) -> "NativeOutput":
        """Prepare a matrix of int8 with a scale for each row."""
        unsigned = (tokens.astype(np.int16) + TOKEN_MIDDLE).astype(np.uint8)
        return cls(tokens, np.ascontiguousarray(scales, np.float32), unsigned)

    def best(self, rows: Float32[np.ndarray, "R D"], types: Int64[np.ndarray, "K"] | None) -> Best:
        """Look at all types, or at these only, which must not be special."""
        score, token, special = best_tokens(
            np.ascontiguousarray(rows),
            self.unsigned,
            self.scales,
            NO_TYPES if types is None else types,
            types is None,
        )
        return Best(score, token, special)
