"""From ids to what the network reads: tables that are looked up by id and position."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.runtimes.onnx.description import Exported
from pcfgnat.runtimes.onnx.layout import Layout, canvas_kinds, mask, opposite
from pcfgnat.runtimes.onnx.runtime import Session
from pcfgnat.runtimes.onnx.starts import Starts

LINKS = ("chain_links", "other_links", "node_links")


class Inputs:
    """The tables of a model, mapped into memory: only what is looked up is read.

    start: what the decoder does before it looks at the source, if the model is cut there
    """

    def __init__(self, exported: Exported, start: Session | None = None) -> None:
        self._layout = Layout.of(exported.description)
        self._width = exported.description.shape.width
        self._copies = exported.description.shape.copy_input
        source = "source_tokens" if exported.has("source_tokens") else "tokens"
        self._tokens = exported.table(source)
        scales = f"{source.removesuffix('s')}_scales"
        self._scales = exported.table(scales) if exported.has(scales) else None
        self._source_positions = exported.table("source_positions")
        self._canvas_positions = exported.table("canvas_positions")
        self._canvas_tokens = exported.table("canvas_tokens").astype(np.float32)
        self._links = {name: exported.table(name) for name in LINKS if exported.has(name)}
        self._starts = None if start is None else Starts(start, lambda nodes: self._empty(np.array([nodes])))

    def of(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """Return all inputs of the network for a batch."""
        lengths = np.array([len(source) for source in sources])
        canvas_lengths = self._layout.canvas_lengths(lengths)
        longest, width = int(lengths.max()), int(canvas_lengths.max())
        ids = np.zeros((len(sources), longest), dtype=np.int64)
        for row, source in zip(ids, sources, strict=True):
            row[: len(source)] = source
        starts = self._starts
        canvas = {"canvas": self._empty(canvas_lengths)} if starts is None else starts.of(canvas_lengths)
        found = {
            "source": self._embedded(ids).reshape(-1, self._width),
            "source_mask": mask(lengths, longest),
            **canvas,
            "canvas_mask": mask(canvas_lengths, width),
            **self._layout.rule_inputs(lengths),
        }
        if self._copies:
            found["opposite"] = opposite(lengths, canvas_lengths)
        for name, table in self._links.items():
            rows = self._rows(name, found, len(sources))
            found[name] = table[:rows].astype(np.float32)
        return found

    def _empty(self, lengths: Int64[np.ndarray, "B"]) -> Float32[np.ndarray, "rows D"]:
        """Return canvases on which nothing is known yet."""
        longest = int(lengths.max())
        kinds = canvas_kinds(lengths, longest)
        canvas: np.ndarray = self._canvas_tokens[kinds] + self._canvas_positions[:longest]
        return canvas.astype(np.float32, copy=False).reshape(-1, self._width)

    def _embedded(self, ids: Int64[np.ndarray, "B N"]) -> Float32[np.ndarray, "B N D"]:
        vectors = self._tokens[ids] * np.float32(self._width**0.5)
        if self._scales is not None:
            vectors = vectors * self._scales[ids][:, :, None]
        embedded: np.ndarray = vectors + self._source_positions[: ids.shape[1]]
        return embedded.astype(np.float32, copy=False)

    @staticmethod
    def _rows(name: str, found: dict[str, np.ndarray], batch: int) -> int:
        """Return how many nodes of a kind a sentence of the batch has, padding included."""
        if name == "chain_links":
            return len(found["places"])
        if name == "other_links":
            return len(found["other_index"]) // batch
        return int(found["canvas_mask"].shape[1])
