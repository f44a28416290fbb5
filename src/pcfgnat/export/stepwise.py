"""An autoregressive network as two graphs: the encoder, and a decoder that reads several tokens a call.

The decoder takes keys and values of all tokens read before, and gives out those of the new ones: the runtime
keeps them, and may forget any. What each new token sees is an input too.
"""

from collections.abc import Callable

from onnx import TensorProto

from pcfgnat.export.graph import FUSED
from pcfgnat.export.network import NetworkGraph, SubLayer


class StepwiseGraph(NetworkGraph):
    """Builds the graphs from a network's weights; a graph of its own for each."""

    def encode_source(self) -> None:
        """Read the source; give out keys and values of all decoder layers."""
        memory, _ = self.memory()
        self.graph.output(self.keys_values(memory), "keys_values")

    def decode_tokens(self) -> None:
        """Read Q more tokens of each sentence behind S others; give out states, and new keys and values."""
        graph, width, count = self.graph, self.config.width, self.config.layers_decoder
        source_mask = graph.input("source_mask", TensorProto.INT32, ["B", "N"])
        keys_values = graph.input("keys_values", TensorProto.FLOAT, ["source_rows", 2 * width * count])
        tokens = graph.input("tokens", TensorProto.FLOAT, ["rows", width])
        token_mask = graph.input("token_mask", TensorProto.INT32, ["B", "Q"])
        bias = graph.input("bias", TensorProto.FLOAT, ["B", 1, "Q", "T"])
        past = graph.input("past", TensorProto.FLOAT, ["B", "S", 2 * width * count])
        memory = graph.split(keys_values, [width] * 2 * count, axis=1)
        before = graph.split(past, [width] * 2 * count, axis=2)
        layers: list[SubLayer] = []
        new: list[str] = []
        for i in range(count):
            name, own = f"decoder.layers.{i}", slice(2 * i, 2 * i + 2)
            attention = self._to_all_before(f"{name}.self_attention", token_mask, bias, before[own], new)
            keys, values = memory[own]
            cross = self._cross_attention(
                f"{name}.cross_attention", token_mask, (keys, values), source_mask, None
            )
            layers += [
                (attention, f"{name}.around_self.norm"),
                (cross, f"{name}.around_cross.norm"),
                (self._feed_forward(f"{name}.feed_forward"), f"{name}.around_feed.norm"),
            ]
        graph.output(self._stack(tokens, layers, "decoder.norm"), "states")
        graph.output(graph.op("Concat", new, {"axis": 2}), "new")

    def _to_all_before(
        self, name: str, mask: str, bias: str, before: list[str], new: list[str]
    ) -> Callable[[str], str]:
        """Attend to earlier tokens and new ones, whose keys and values are added to `new`."""
        graph, width = self.graph, self.config.width

        def run(x: str) -> str:
            parts = graph.split(self._linear(f"{name}.project", x), [width] * 3, axis=1)
            query, *own = (self.by_sentence(part, mask) for part in parts)
            new.extend(own)
            keys, values = (
                graph.op("Concat", list(pair), {"axis": 1}) for pair in zip(before, own, strict=True)
            )
            heads = {"num_heads": self.config.heads}
            mixed = graph.op("MultiHeadAttention", [query, keys, values, "", "", bias], heads, FUSED)
            return self._linear(f"{name}.output", graph.reshape(mixed, graph.whole(-1, width)))

        return run
