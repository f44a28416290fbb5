"""Encoder and decoder of a one-pass model as a graph: from embedded source and canvas to states.

Rows of all sentences lie under each other, `[B·N, D]`, so that every linear map is one product. Keys and
values of the encoder's states are computed for all decoder layers at once. What the decoder does before it
looks at the source depends on the canvas' length alone, if nothing is copied into it: that is a graph of its
own, run once for each length.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import TensorProto

from pcfgnat.export.graph import FUSED, Graph, quantise
from pcfgnat.nn import TransformerConfig

Weights = Mapping[str, np.ndarray]
SubLayer = tuple[Callable[[str], str], str]  # from what it reads to what it adds; the name of its norm


class NetworkGraph:
    """Builds the graph of a model from its weights."""

    def __init__(
        self, config: TransformerConfig, weights: Weights, int8: bool, graph: Graph | None = None
    ) -> None:
        self.config = config
        self.graph = Graph(int8) if graph is None else graph
        self._weights = weights

    @property
    def copies(self) -> bool:
        """Whether the canvas holds something of the source from the beginning."""
        return "copy.weight" in self._weights

    def states(self) -> str:
        """Read source and canvas; return the decoder's states, `[B·M, D]`."""
        memory, mask = self.memory()
        return self._filled(self.keys_values(memory), mask, memory)

    def encoded_states(self) -> str:
        """Read what another graph encoded, and a canvas; return the decoder's states, `[B·M, D]`."""
        graph, width, layers = self.graph, self.config.width, self.config.layers_decoder
        mask = graph.input("source_mask", TensorProto.INT32, ["B", "N"])
        keys_values = graph.input("keys_values", TensorProto.FLOAT, ["source_rows", 2 * width * layers])
        memory = graph.input("memory", TensorProto.FLOAT, ["source_rows", width]) if self.copies else ""
        return self._filled(keys_values, mask, memory)

    def memory(self) -> tuple[str, str]:
        """Read the source; return the encoder's states, `[B·N, D]`, and the mask, `[B, N]`."""
        source = self.graph.input("source", TensorProto.FLOAT, ["source_rows", self.config.width])
        mask = self.graph.input("source_mask", TensorProto.INT32, ["B", "N"])
        return self._stack(source, self._encoder_layers(mask), "encoder.norm"), mask

    def _filled(self, keys_values: str, source_mask: str, memory: str) -> str:
        """Read a canvas; the encoder's states are looked at if something is copied."""
        graph, width = self.graph, self.config.width
        canvas = graph.input("canvas", TensorProto.FLOAT, ["canvas_rows", width])
        canvas_mask = graph.input("canvas_mask", TensorProto.INT32, ["B", "M"])
        query = None if self.copies else graph.input("query", TensorProto.FLOAT, ["canvas_rows", width])
        layers = self._decoder_layers(canvas_mask, keys_values, source_mask, query)
        if self.copies:
            return self._stack(self._with_copies(canvas, memory), layers, "decoder.norm")
        return self._stack(canvas, layers[1:], "decoder.norm")  # the first self-attention has been done

    def start(self) -> None:
        """Read an empty canvas; give out what the first attention to the source adds to, and its queries."""
        graph, width, name = self.graph, self.config.width, "decoder.layers.0"
        canvas = graph.input("canvas", TensorProto.FLOAT, ["canvas_rows", width])
        mask = graph.input("canvas_mask", TensorProto.INT32, ["B", "M"])
        attention = self._self_attention(f"{name}.self_attention", mask), f"{name}.around_self.norm"
        x = self._stack(canvas, [attention])
        graph.output(x, "started")
        asking = self._norm(f"{name}.around_cross.norm", x) if self.config.pre_norm else x
        graph.output(self._linear(f"{name}.cross_attention.query", asking), "query")

    def encode(self) -> None:
        """Read the source; give out keys and values of all decoder layers and, if needed, states, lengths."""
        graph = self.graph
        memory, mask = self.memory()
        graph.output(self.keys_values(memory), "keys_values")
        if self.copies:
            graph.output(memory, "memory")
        if "length.weight" in self._weights:
            graph.output(self._length(memory, mask), "length")

    def _length(self, memory: str, mask: str) -> str:
        """Return the scores of lengths, from the mean of the encoder's states."""
        graph = self.graph
        weights = graph.op("Cast", [mask], {"to": TensorProto.FLOAT})
        inside = graph.op("Unsqueeze", [weights, graph.whole(2)])
        kept = graph.op(
            "Where",
            [
                graph.op("Cast", [inside], {"to": TensorProto.BOOL}),
                self.by_sentence(memory, mask),
                graph.constant(np.zeros((), dtype=np.float32)),
            ],
        )
        total = graph.op("ReduceSum", [kept, graph.whole(1)], {"keepdims": 0})
        count = graph.op("ReduceSum", [weights, graph.whole(1)], {"keepdims": 1})
        bias = graph.constant(self._weights["length.bias"])
        mean = graph.op("Div", [total, count])
        weight = graph.constant(self._weights["length.weight"])
        return graph.op("Gemm", [mean, weight, bias], {"transB": 1})

    def decode(self) -> None:
        """Read a canvas of any tokens and what `encode` gave out; give out the decoder's states."""
        graph, width, layers = self.graph, self.config.width, self.config.layers_decoder
        source_mask = graph.input("source_mask", TensorProto.INT32, ["B", "N"])
        canvas = graph.input("canvas", TensorProto.FLOAT, ["canvas_rows", width])
        canvas_mask = graph.input("canvas_mask", TensorProto.INT32, ["B", "M"])
        keys_values = graph.input("keys_values", TensorProto.FLOAT, ["source_rows", 2 * width * layers])
        if self.copies:
            memory = graph.input("memory", TensorProto.FLOAT, ["source_rows", width])
            canvas = self._with_copies(canvas, memory)
        stack = self._decoder_layers(canvas_mask, keys_values, source_mask, query=None)
        graph.output(self._stack(canvas, stack, "decoder.norm"), "states")

    def _with_copies(self, canvas: str, memory: str) -> str:
        """Add to each node what stands opposite to it."""
        opposite = self.graph.input("opposite", TensorProto.INT64, ["canvas_rows"])
        copied = self._linear("copy", memory)
        return self.graph.op("Add", [canvas, self.graph.op("Gather", [copied, opposite], {"axis": 0})])

    def _encoder_layers(self, mask: str) -> list[SubLayer]:
        layers: list[SubLayer] = []
        for i in range(self.config.layers_encoder):
            name = f"encoder.layers.{i}"
            layers += [
                (self._self_attention(f"{name}.self_attention", mask), f"{name}.around_self.norm"),
                (self._feed_forward(f"{name}.feed_forward"), f"{name}.around_feed.norm"),
            ]
        return layers

    def keys_values(self, memory: str) -> str:
        """Return keys and values of all decoder layers side by side: one product."""
        names = [f"decoder.layers.{i}.cross_attention.project" for i in range(self.config.layers_decoder)]
        weight = np.concatenate([self._weights[f"{name}.weight"] for name in names])
        bias = np.concatenate([self._weights[f"{name}.bias"] for name in names])
        return self.graph.linear(memory, weight, bias)

    def _decoder_layers(
        self, mask: str, keys_values: str, memory_mask: str, query: str | None
    ) -> list[SubLayer]:
        """Return all sub-layers; `query` are the queries of the first cross-attention, if they are known."""
        names = [f"decoder.layers.{i}" for i in range(self.config.layers_decoder)]
        parts = self.graph.split(keys_values, [self.config.width] * 2 * len(names), axis=1)
        layers: list[SubLayer] = []
        for i, name in enumerate(names):
            own, known = (parts[2 * i], parts[2 * i + 1]), query if i == 0 else None
            cross = self._cross_attention(f"{name}.cross_attention", mask, own, memory_mask, known)
            layers += [
                (self._self_attention(f"{name}.self_attention", mask), f"{name}.around_self.norm"),
                (cross, f"{name}.around_cross.norm"),
                (self._feed_forward(f"{name}.feed_forward"), f"{name}.around_feed.norm"),
            ]
        return layers

    def _stack(self, x: str, layers: Sequence[SubLayer], last_norm: str | None = None) -> str:
        """Run sub-layers; the norm stands before each and behind the last, or behind each sum."""
        # not as one operator SkipLayerNormalization, which is several times slower on a CPU
        if not self.config.pre_norm:
            for sub_layer, norm in layers:
                x = self._norm(norm, self.graph.op("Add", [x, sub_layer(x)]))
            return x
        for sub_layer, norm in layers:
            x = self.graph.op("Add", [x, sub_layer(self._norm(norm, x))])
        return x if last_norm is None else self._norm(last_norm, x)

    def _norm(self, name: str, x: str) -> str:
        parts = [self.graph.constant(self._weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        normed = self.graph.op("LayerNormalization", [x, *parts], {"axis": -1, "epsilon": 1e-5})
        self._know_range(normed, name)
        return normed

    def _know_range(self, x: str, name: str) -> None:
        if (known := self._weights.get(f"{name}.range")) is not None:
            self.graph.ranges[x] = (float(known[0]), float(known[1]))

    def _linear(self, name: str, x: str) -> str:
        self._know_range(x, name)
        return self.graph.linear(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _feed_forward(self, name: str) -> Callable[[str], str]:
        def run(x: str) -> str:
            wide = self._linear(f"{name}.widen", x)
            if self.config.activation == "gelu":
                wide = self.graph.op("Gelu", [wide], domain=FUSED)
            else:
                wide = self.graph.op("Relu", [wide])
            return self._linear(f"{name}.output", wide)

        return run

    def _self_attention(self, name: str, mask: str) -> Callable[[str], str]:
        def run(x: str) -> str:
            if self.graph.int8 and x in self.graph.ranges:
                return self._fused_attention(name, x, mask)
            parts = self.graph.split(self._linear(f"{name}.project", x), [self.config.width] * 3, axis=1)
            return self._attention(name, parts[0], mask, (parts[1], parts[2]), mask)

        return run

    def _cross_attention(
        self, name: str, mask: str, keys_values: tuple[str, str], memory_mask: str, query: str | None
    ) -> Callable[[str], str]:
        def run(x: str) -> str:
            rows = query or self._linear(f"{name}.query", x)
            return self._attention(name, rows, mask, keys_values, memory_mask)

        return run

    def _fused_attention(self, name: str, x: str, mask: str) -> str:
        """Project to queries, keys and values by head, without moving them, and attend: one operator."""
        graph, rows = self.graph, self.graph.quantised(x)
        values, scale = quantise(self._weights[f"{name}.project.weight"])
        weight = (graph.constant(values.T), graph.constant(self._weights[f"{name}.project.bias"]))
        inputs = [self.by_sentence(rows.values, mask), *weight, rows.step, graph.constant(scale), mask]
        heads = {"num_heads": self.config.heads}
        mixed = graph.op("QAttention", [*inputs, rows.zero], heads, FUSED)
        return self._linear(f"{name}.output", graph.reshape(mixed, graph.whole(-1, self.config.width)))

    def _attention(
        self, name: str, query: str, mask: str, keys_values: tuple[str, str], memory_mask: str
    ) -> str:
        graph = self.graph
        q = self.by_sentence(query, mask)
        k, v = (self.by_sentence(rows, memory_mask) for rows in keys_values)
        heads = {"num_heads": self.config.heads}
        mixed = graph.op("MultiHeadAttention", [q, k, v, "", memory_mask], heads, FUSED)
        return self._linear(f"{name}.output", graph.reshape(mixed, graph.whole(-1, self.config.width)))

    def by_sentence(self, rows: str, mask: str) -> str:
        """`[B·N, D]` to `[B, N, D]`, where the mask is `[B, N]`."""
        shape = self.graph.join(self.graph.op("Shape", [mask]), self.graph.whole(-1))
        return self.graph.reshape(rows, shape)
