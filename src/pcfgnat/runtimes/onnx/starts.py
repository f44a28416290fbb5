"""What the decoder does before it looks at the source, the same for all sentences of a length: it is kept."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.runtimes.onnx.kept import KEPT_ROWS, Kept
from pcfgnat.runtimes.onnx.layout import mask
from pcfgnat.runtimes.onnx.sessions import Session


class Starts:
    """Runs `start.onnx`, and remembers by length: the lengths used last, as far as the rows reach.

    empty: from a length to the canvas of that many nodes, `[M, D]`
    """

    def __init__(
        self, session: Session, empty: Callable[[int], Float32[np.ndarray, "M D"]], rows: int = KEPT_ROWS
    ) -> None:
        self._session, self._empty = session, empty
        self._kept = Kept(self._run, rows)

    def of(self, lengths: Int64[np.ndarray, "B"]) -> dict[str, Float32[np.ndarray, "rows D"]]:
        """Return the inputs `canvas` and `query` of the network, sentences padded to the longest."""
        found = [self._kept.of(length) for length in lengths.tolist()]
        if len(found) == 1:
            return found[0]
        return {name: _stacked([start[name] for start in found]) for name in found[0]}

    def _run(self, length: int) -> dict[str, np.ndarray]:
        inputs = {"canvas": self._empty(length), "canvas_mask": mask(np.array([length]), length)}
        results = self._session(inputs)
        return {"canvas": results["started"], "query": results["query"]}


def _stacked(parts: list[Float32[np.ndarray, "_ D"]]) -> Float32[np.ndarray, "rows D"]:
    """Put sentences under each other, with rows of zeros up to the longest."""
    longest, width = max(map(len, parts)), parts[0].shape[1]
    together = np.zeros((len(parts), longest, width), dtype=np.float32)
    for rows, part in zip(together, parts, strict=True):
        rows[: len(part)] = part
    return together.reshape(-1, width)
