"""The decoder of DisCo as a graph: every node sees a set of tokens of its own."""

from collections.abc import Callable

from onnx import TensorProto

from pcfgnat.export.graph import FUSED
from pcfgnat.export.network import NetworkGraph, SubLayer


class DisentangledGraph(NetworkGraph):
    """Builds the graphs of a DisCo model from its weights."""

    def decode(self) -> None:
        """Read positions, embedded tokens and what is hidden from each node; give out the states."""
        graph, width, layers = self.graph, self.config.width, self.config.layers_decoder
        source_mask = graph.input("source_mask", TensorProto.INT32, ["B", "N"])
        queries = graph.input("queries", TensorProto.FLOAT, ["canvas_rows", width])
        tokens = graph.input("canvas", TensorProto.FLOAT, ["canvas_rows", width])
        canvas_mask = graph.input("canvas_mask", TensorProto.INT32, ["B", "M"])
        hidden = graph.input("hidden", TensorProto.FLOAT, ["B", 1, "M", "M"])
        keys_values = graph.input("keys_values", TensorProto.FLOAT, ["source_rows", 2 * width * layers])
        if self.copies:
            queries = self._with_copies(
                queries, graph.input("memory", TensorProto.FLOAT, ["source_rows", width])
            )
        parts = graph.split(keys_values, [width] * 2 * layers, axis=1)
        stack: list[SubLayer] = []
        for i in range(layers):
            name, own = f"decoder.layers.{i}", (parts[2 * i], parts[2 * i + 1])
            cross = self._cross_attention(f"{name}.cross_attention", canvas_mask, own, source_mask, None)
            stack += [
                (self._token_attention(name, tokens, canvas_mask, hidden), f"{name}.around_tokens.norm"),
                (cross, f"{name}.around_cross.norm"),
                (self._feed_forward(f"{name}.feed_forward"), f"{name}.around_feed.norm"),
            ]
        graph.output(self._stack(queries, stack, "decoder.norm"), "states")

    def _token_attention(self, layer: str, tokens: str, mask: str, hidden: str) -> Callable[[str], str]:
        """Attend to embedded tokens, which pass through the norm that the states pass through."""
        graph, name = self.graph, f"{layer}.token_attention"

        def run(x: str) -> str:
            read = self._norm(f"{layer}.around_tokens.norm", tokens) if self.config.pre_norm else tokens
            seen = graph.split(self._linear(f"{name}.project", read), [self.config.width] * 2, axis=1)
            asked = self._linear(f"{name}.query", x)
            q, k, v = (self.by_sentence(rows, mask) for rows in (asked, *seen))
            heads = {"num_heads": self.config.heads}
            mixed = graph.op("MultiHeadAttention", [q, k, v, "", "", hidden], heads, FUSED)
            return self._linear(f"{name}.output", graph.reshape(mixed, graph.whole(-1, self.config.width)))

        return run
