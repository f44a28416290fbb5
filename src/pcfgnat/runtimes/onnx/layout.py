"""What graphs have to be told of a batch: masks, which nodes canvases have, and which rules are legal."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float32, Int32, Int64

from pcfgnat.grammar.canvas import Geometry, legal_rules, off_chain, opposite, places
from pcfgnat.text.special import SPECIAL_TOKENS

FORBIDDEN = np.float32(-1e9)  # nothing is left of it behind a softmax, and no NaN where all is forbidden
BOS, BLANK, EOS = range(3)  # what the canvas holds, as rows of the table `canvas_tokens`


def rule_inputs(geometry: Geometry, source_lengths: Int64[np.ndarray, "B"]) -> dict[str, np.ndarray]:
    """Return the inputs of the part of a graph that scores rules."""
    if geometry.structure == "slots":
        return {}
    chain_lengths = geometry.chain_lengths(geometry.canvas_lengths(source_lengths))
    same = bool((chain_lengths == chain_lengths[0]).all())
    different = chain_lengths[:1] if same else chain_lengths
    illegal = illegal_rules(tuple(different.tolist()), geometry.block)
    if geometry.structure == "graph":
        return {"illegal": illegal}
    longest, batch = int(chain_lengths.max()), len(chain_lengths)
    on_chain, others, place = symbols(longest, geometry.block)
    start = np.arange(batch)[:, None] * (len(on_chain) + len(others))
    return {
        "illegal": illegal,
        "chain_index": (start + on_chain).ravel(),
        "other_index": (start + others).ravel(),
        "places": place,
    }


def mask(lengths: Int64[np.ndarray, "B"], width: int) -> Int32[np.ndarray, "B width"]:
    """1 at the positions that belong to a sentence, else 0."""
    return (np.arange(width) < lengths[:, None]).astype(np.int32)


def canvas_kinds(lengths: Int64[np.ndarray, "B"], width: int) -> Int64[np.ndarray, "B width"]:
    """Return what each node of an empty canvas holds: bos at the first, eos at the last, else a blank."""
    kinds = np.full((len(lengths), width), BLANK)
    kinds[:, 0] = BOS
    kinds[np.arange(len(lengths)), lengths - 1] = EOS
    return kinds


def empty_canvases(lengths: Int64[np.ndarray, "B"]) -> Int64[np.ndarray, "B M"]:
    """Return the tokens of empty canvases."""
    held = np.array([SPECIAL_TOKENS.bos, SPECIAL_TOKENS.unk, SPECIAL_TOKENS.eos])
    canvases: np.ndarray = held[canvas_kinds(lengths, int(lengths.max()))]
    return canvases


def opposite_rows(
    source_lengths: Int64[np.ndarray, "B"], canvas_lengths: Int64[np.ndarray, "B"]
) -> Int64[np.ndarray, "rows"]:
    """Return the encoder's state, as a row of all, that each node stands opposite to."""
    place = opposite(np.arange(canvas_lengths.max()), source_lengths, canvas_lengths)
    rows: np.ndarray = place + np.arange(len(place))[:, None] * source_lengths.max()
    return rows.ravel()


@lru_cache(maxsize=64)
def illegal_rules(chain_lengths: tuple[int, ...], block: int) -> Float32[np.ndarray, "B 1 C K"]:
    """0 for rules of the main chain, a large negative number elsewhere."""
    node = np.arange(max(chain_lengths))
    legal = legal_rules(node, np.arange(block), np.array(chain_lengths))  # B C d C
    return np.where(legal, np.float32(0), FORBIDDEN).reshape(len(chain_lengths), 1, len(node), -1)


@lru_cache(maxsize=64)
def symbols(
    chain_length: int, block: int
) -> tuple[Int64[np.ndarray, "C"], Int64[np.ndarray, "O"], Int64[np.ndarray, "C d"]]:
    """Return the symbols on the main chain, those off it, and where among the latter each prefix tree is."""
    node = np.arange(chain_length)
    others = off_chain(np.arange(1 + (chain_length - 1) * (block - 1)), block)
    return 1 + node * block, others, places(node, np.arange(block))
