"""Where everything lies: how long canvases are, which nodes they have, and which rules are legal."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float32, Int32, Int64

from pcfgnat.runtimes.onnx.description import EngineDescription

FORBIDDEN = np.float32(-1e9)  # nothing is left of it behind a softmax, and no NaN where all is forbidden
BOS, BLANK, EOS = range(3)  # what the canvas holds, as rows of the table `canvas_tokens`


@dataclass(frozen=True)
class Layout:
    """The layout of one model."""

    model: str
    upsampling: int
    depth: int

    @classmethod
    def of(cls, description: EngineDescription) -> "Layout":
        """Read it off a description."""
        shape = description.shape
        return cls(description.model, shape.upsampling, shape.prefix_depth)

    def canvas_lengths(self, source_lengths: Int64[np.ndarray, "B"]) -> Int64[np.ndarray, "B"]:
        """Return how many nodes each sentence gets."""
        if self.model == "pcfg":
            return source_lengths * (self.upsampling << self.depth) + 2
        lengths = source_lengths * self.upsampling
        return np.maximum(lengths, 2) if self.model == "dag" else lengths

    @property
    def nodes_per_token(self) -> int:
        """About how many nodes of the canvas there are for a source token."""
        return self.upsampling << self.depth

    def chain_lengths_of(self, canvas_lengths: Int64[np.ndarray, "B"]) -> Int64[np.ndarray, "B"]:
        """Return how many nodes of the main chain canvases have; all, if there are no others."""
        return (canvas_lengths - 2) // (1 << self.depth) + 1 if self.model == "pcfg" else canvas_lengths

    def rule_inputs(self, source_lengths: Int64[np.ndarray, "B"]) -> dict[str, np.ndarray]:
        """Return what the part of the network that scores rules has to be told."""
        if self.model == "ctc":
            return {}
        chain_lengths = self.chain_lengths_of(self.canvas_lengths(source_lengths))
        same = bool((chain_lengths == chain_lengths[0]).all())
        different = chain_lengths[:1] if same else chain_lengths
        illegal = illegal_rules(tuple(different.tolist()), 1 << self.depth)
        if self.model == "dag":
            return {"illegal": illegal}
        longest, batch = int(chain_lengths.max()), len(chain_lengths)
        on_chain, others, places = symbols(longest, self.depth)
        start = np.arange(batch)[:, None] * (len(on_chain) + len(others))
        return {
            "illegal": illegal,
            "chain_index": (start + on_chain).ravel(),
            "other_index": (start + others).ravel(),
            "places": places,
        }


def mask(lengths: Int64[np.ndarray, "B"], width: int) -> Int32[np.ndarray, "B width"]:
    """1 at the positions that belong to a sentence, else 0."""
    return (np.arange(width) < lengths[:, None]).astype(np.int32)


def canvas_kinds(lengths: Int64[np.ndarray, "B"], width: int) -> Int64[np.ndarray, "B width"]:
    """Say what each node of the canvas holds: bos at the first, eos at the last, else a blank."""
    kinds = np.full((len(lengths), width), BLANK)
    kinds[:, 0] = BOS
    kinds[np.arange(len(lengths)), lengths - 1] = EOS
    return kinds


def opposite(
    source_lengths: Int64[np.ndarray, "B"], canvas_lengths: Int64[np.ndarray, "B"]
) -> Int64[np.ndarray, "rows"]:
    """Return the encoder's state, as a row of all, that each node stands opposite to."""
    sources = source_lengths[:, None]
    node = np.arange(canvas_lengths.max())
    place = np.minimum(node * sources // canvas_lengths[:, None], sources - 1)
    rows: np.ndarray = place + np.arange(len(place))[:, None] * source_lengths.max()
    return rows.ravel()


@lru_cache(maxsize=64)
def illegal_rules(chain_lengths: tuple[int, ...], block: int) -> Float32[np.ndarray, "B 1 C K"]:
    """0 for rules of the main chain: the right child is later and exists, and the root has no left one."""
    node = np.arange(max(chain_lengths))
    later = node > node[:, None]
    exists = node < np.array(chain_lengths)[:, None]
    left = (node[:, None] > 0) | (np.arange(block) == 0)
    legal = later[:, None] & exists[:, None, None] & left[:, :, None]  # B C d C
    return np.where(legal, np.float32(0), FORBIDDEN).reshape(len(chain_lengths), 1, len(node), -1)


@lru_cache(maxsize=64)
def symbols(
    chain_length: int, depth: int
) -> tuple[Int64[np.ndarray, "C"], Int64[np.ndarray, "O"], Int64[np.ndarray, "C d"]]:
    """Return the symbols on the main chain, those off it, and where among the latter each prefix tree is."""
    block = 1 << depth
    symbol = np.arange((chain_length - 1) * block + 2)
    on_chain = (symbol > 0) & ((symbol - 1) % block == 0)
    k, offset = np.arange(chain_length)[:, None], np.arange(block)
    places = (k - 1) * (block - 1) + offset
    return symbol[on_chain], symbol[~on_chain], np.where((offset == 0) | (k == 0), 0, places)
