"""What the decoder does before it looks at the source, the same for all sentences of a length: it is kept."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.runtimes.onnx.layout import mask
from pcfgnat.runtimes.onnx.sessions import Session

KEPT_ROWS = 8192  # nodes of all canvases kept: at λ = 4, l = 1 those of the lengths up to 44


@dataclass
class Starts:
    """Runs `start.onnx`, and remembers by length: the lengths used last, as far as the rows reach.

    empty: from a length to the canvas of that many nodes, `[M, D]`
    """

    session: Session
    empty: Callable[[int], Float32[np.ndarray, "M D"]]
    rows: int = KEPT_ROWS
    _kept: OrderedDict[int, dict[str, np.ndarray]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, lengths: Int64[np.ndarray, "B"]) -> dict[str, Float32[np.ndarray, "rows D"]]:
        """Return the inputs `canvas` and `query` of the network, sentences padded to the longest."""
        found = [self._of_length(length) for length in lengths.tolist()]
        if len(found) == 1:
            return found[0]
        return {name: _stacked([start[name] for start in found]) for name in found[0]}

    def _of_length(self, length: int) -> dict[str, np.ndarray]:
        with self._lock:
            if (known := self._kept.get(length)) is not None:
                self._kept.move_to_end(length)
                return known
        inputs = {"canvas": self.empty(length), "canvas_mask": mask(np.array([length]), length)}
        results = self.session(inputs)
        start = {"canvas": results["started"], "query": results["query"]}
        with self._lock:
            self._kept[length] = start
            while sum(self._kept) > self.rows and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return start


def _stacked(parts: list[Float32[np.ndarray, "_ D"]]) -> Float32[np.ndarray, "rows D"]:
    """Put sentences under each other, with rows of zeros up to the longest."""
    longest, width = max(map(len, parts)), parts[0].shape[1]
    together = np.zeros((len(parts), longest, width), dtype=np.float32)
    for rows, part in zip(together, parts, strict=True):
        rows[: len(part)] = part
    return together.reshape(-1, width)
