"""From ids to what graphs read: tables that are looked up by id and position."""

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.grammar.canvas import Geometry
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.onnx.kept import Kept
from pcfgnat.runtimes.onnx.layout import BLANK, BOS, EOS, canvas_kinds, mask, opposite_rows, rule_inputs
from pcfgnat.runtimes.onnx.sessions import Session
from pcfgnat.runtimes.onnx.starts import Starts
from pcfgnat.text.special import SPECIAL_TOKENS


class Embedded:
    """Tables of tokens and positions, mapped into memory: only what is looked up is read."""

    def __init__(self, exported: Exported) -> None:
        shape, vocabulary = exported.metadata.shape, exported.metadata.vocabulary
        self.width = shape.width
        self._scale = np.float32(shape.width**0.5)
        self.scales = exported.table("token_scales", (vocabulary,)) if exported.has("token_scales") else None
        kind = np.float32 if self.scales is None else np.int8
        self.tokens = exported.table("tokens", (vocabulary, shape.width), (kind,))
        self._own_source = exported.has("source_tokens")
        self._source_tokens = (
            exported.table("source_tokens", (vocabulary, shape.width)) if self._own_source else self.tokens
        )
        self._read_tokens = None  # those of canvases, where they are not those of the output layer
        if exported.has("read_tokens"):
            self._read_tokens = exported.table("read_tokens", (vocabulary, shape.width))
        positions = exported.table("source_positions", (shape.max_source_length, shape.width))
        self._source_positions = positions.astype(np.float32)  # read for every sentence
        self._canvas_positions = exported.table("canvas_positions", (shape.max_canvas_length, shape.width))
        self._canvas_tokens = exported.table("canvas_tokens", (3, shape.width)).astype(np.float32)
        self._target_positions = self._canvas_positions  # unless sentences are read beside canvases
        if exported.has("reader_positions"):
            self._target_positions = exported.table(
                "reader_positions", (shape.max_source_length, shape.width)
            )

    @property
    def target_limit(self) -> int:
        """How many tokens of a sentence can be read."""
        return len(self._target_positions)

    def sources(self, sources: Sources) -> tuple[Float32[np.ndarray, "rows D"], Int64[np.ndarray, "B"]]:
        """Return embedded sources, padded to the longest, under each other, and their lengths."""
        lengths = np.array([len(source) for source in sources])
        if len(sources) == 1:
            ids = np.array(sources, dtype=np.int64)
        else:
            ids = np.zeros((len(sources), int(lengths.max())), dtype=np.int64)
            for row, source in zip(ids, sources, strict=True):
                row[: len(source)] = source
        scales = None if self._own_source else self.scales
        embedded = self._looked_up(self._source_tokens, scales, ids) + self._source_positions[: ids.shape[1]]
        return embedded.astype(np.float32, copy=False).reshape(-1, self.width), lengths

    def blanks(self, lengths: Int64[np.ndarray, "B"]) -> Float32[np.ndarray, "rows D"]:
        """Return embedded canvases on which nothing is known yet."""
        longest = int(lengths.max())
        canvas: np.ndarray = self._canvas_tokens[canvas_kinds(lengths, longest)]
        return self._on_canvas(canvas)

    def canvases(self, ids: Int64[np.ndarray, "B M"]) -> Float32[np.ndarray, "rows D"]:
        """Return embedded canvases of any tokens; the unknown token stands for a blank."""
        if self._read_tokens is None:
            canvas = self._looked_up(self.tokens, self.scales, ids)
        else:
            canvas = self._looked_up(self._read_tokens, None, ids)
        special = SPECIAL_TOKENS
        for kind, token in ((BOS, special.bos), (BLANK, special.unk), (EOS, special.eos)):
            canvas[ids == token] = self._canvas_tokens[kind]
        return self._on_canvas(canvas)

    def positions(self, canvases: int, width: int) -> Float32[np.ndarray, "rows D"]:
        """Return the positions of so many canvases, without any token."""
        return self._on_canvas(np.zeros((canvases, width, self.width), dtype=np.float32))

    def targets(
        self, ids: Int64[np.ndarray, "B Q"], positions: Int64[np.ndarray, "B Q"]
    ) -> Float32[np.ndarray, "rows D"]:
        """Return embedded tokens that stand at any positions."""
        placed: np.ndarray = (
            self._looked_up(self.tokens, self.scales, ids) + self._target_positions[positions]
        )
        return placed.astype(np.float32, copy=False).reshape(-1, self.width)

    def _on_canvas(self, canvas: np.ndarray) -> Float32[np.ndarray, "rows D"]:
        placed: np.ndarray = canvas + self._canvas_positions[: canvas.shape[1]]
        return placed.astype(np.float32, copy=False).reshape(-1, self.width)

    def _looked_up(self, table: np.ndarray, scales: np.ndarray | None, ids: np.ndarray) -> np.ndarray:
        vectors: np.ndarray = table[ids] * self._scale
        return vectors if scales is None else vectors * scales[ids][:, :, None]


class Inputs:
    """All inputs of the graph of a one-pass network.

    start: what the decoder does before it looks at the source, if the graph is cut there

    All but the source of a sentence that is run alone follows from its length, and is kept.
    """

    def __init__(
        self, exported: Exported, embedded: Embedded, geometry: Geometry, start: Session | None
    ) -> None:
        self._embedded, self._geometry = embedded, geometry
        self._copies = exported.metadata.shape.copy_input
        rows = link_rows(geometry, exported.metadata.shape.max_canvas_length)
        self._links = {name: exported.table(name, (size, None)) for name, size in rows.items()}
        self._starts = (
            None if start is None else Starts(start, lambda nodes: embedded.blanks(np.array([nodes])))
        )
        self._alone = Kept(lambda length: self._beside(np.array([length])), size=geometry.longest_canvas)

    def of(self, sources: Sources) -> dict[str, np.ndarray]:
        """Return all inputs of the network for a batch."""
        source, lengths = self._embedded.sources(sources)
        return {"source": source, **self.beside(lengths)}

    def beside(self, lengths: Int64[np.ndarray, "B"]) -> dict[str, np.ndarray]:
        """Return all inputs but the source, which has these lengths; nobody may change the arrays."""
        if len(lengths) > 1:
            return self._beside(lengths)
        return self._alone.of(int(lengths[0]))

    def _beside(self, lengths: Int64[np.ndarray, "B"]) -> dict[str, np.ndarray]:
        canvas_lengths = self._geometry.canvas_lengths(lengths)
        starts = self._starts
        canvas = (
            {"canvas": self._embedded.blanks(canvas_lengths)} if starts is None else starts.of(canvas_lengths)
        )
        found = {
            "source_mask": mask(lengths, int(lengths.max())),
            **canvas,
            "canvas_mask": mask(canvas_lengths, int(canvas_lengths.max())),
            **rule_inputs(self._geometry, lengths),
        }
        if self._copies:
            found["opposite"] = opposite_rows(lengths, canvas_lengths)
        rows = link_rows(self._geometry, int(canvas_lengths.max()))
        return found | {name: table[: rows[name]].astype(np.float32) for name, table in self._links.items()}


def link_rows(geometry: Geometry, canvas_length: int) -> dict[str, int]:
    """Return the tables of positions that rules are scored by, and how many nodes of a canvas have a row."""
    if geometry.structure == "slots":
        return {}
    if geometry.structure == "graph":
        return {"node_links": canvas_length}
    chain = geometry.chain_lengths(canvas_length)
    return {"chain_links": chain, "other_links": canvas_length - chain}
