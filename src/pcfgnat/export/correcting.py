"""The decoder of CMLMC as a graph, and its tables: tokens and positions are mapped once and for all."""

from collections.abc import Callable

import numpy as np

from pcfgnat.export.graph import FUSED
from pcfgnat.export.network import NetworkGraph, SubLayer, Weights
from pcfgnat.text.special import SPECIAL_TOKENS

HELD = [SPECIAL_TOKENS.bos, SPECIAL_TOKENS.unk, SPECIAL_TOKENS.eos]  # what blank canvases hold


class TwoViewGraph(NetworkGraph):
    """Builds the graphs of a CMLMC model from its weights."""

    def _decoder_layers(
        self, mask: str, keys_values: str, memory_mask: str, query: str | None
    ) -> list[SubLayer]:
        plain, layers = super()._decoder_layers(mask, keys_values, memory_mask, query), list[SubLayer]()
        for i in range(self.config.layers_decoder):
            name, own = f"decoder.layers.{i}", plain[3 * i : 3 * i + 3]
            causal = self._causal_attention(f"{name}.causal_attention", mask)
            layers += [own[0], (causal, f"{name}.around_causal.norm"), *own[1:]]
        return layers

    def _causal_attention(self, name: str, mask: str) -> Callable[[str], str]:
        graph, width = self.graph, self.config.width

        def run(x: str) -> str:
            parts = graph.split(self._linear(f"{name}.project", x), [width] * 3, axis=1)
            heads = {"num_heads": self.config.heads, "unidirectional": 1}  # padding stands at the end
            rows = [self.by_sentence(part, mask) for part in parts]
            mixed = graph.op("MultiHeadAttention", rows, heads, FUSED)
            return self._linear(f"{name}.output", graph.reshape(mixed, graph.whole(-1, width)))

        return run


def mapped_tables(weights: Weights, scale: float) -> dict[str, np.ndarray]:
    """Return the tables of tokens and positions whose sum is what the maps make of both side by side."""
    tokens = weights["embeddings.tokens.weight"]
    source = weights.get("embeddings.source_tokens.weight", tokens)
    width = tokens.shape[1]
    tables = {}
    for side, own, places in (("source", source, "source_positions"), ("target", tokens, "canvas_positions")):
        linear = weights[f"embeddings.{side}_map.weight"]
        of_tokens, of_positions = linear[:, :width], linear[:, width:]
        positions = weights[f"embeddings.{side}_positions.weight"]
        tables[places] = positions @ of_positions.T + weights[f"embeddings.{side}_map.bias"]
        tables["source_tokens" if side == "source" else "read_tokens"] = own @ of_tokens.T
    tables["canvas_tokens"] = tables["read_tokens"][HELD] * np.float32(scale)
    return tables
