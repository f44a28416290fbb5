"""The output layer as graphs: of all types, or of some whose weights come in.

Only what decoding looks at comes out: for each row of states the best type of every block of the vocabulary,
its score, and the sum of `exp(score - best)` in that block, from which the normaliser follows.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float
from onnx import TensorProto

from pcfgnat.export.graph import Graph, Quantised, Range
from pcfgnat.runtimes.onnx.output import BLOCK_TYPES
from pcfgnat.runtimes.output import SPECIAL


def exact_output(
    tokens: Path,
    offset: int,
    shape: tuple[int, int],
    special: Float[np.ndarray, "s D"],
    scale: np.ndarray | None,
    bound: Range | None,
) -> Graph:
    """Score all types but the special ones; their weights lie in the file `tokens` from byte `offset` on.

    `bound` is what is known of the range of the states' numbers.
    """
    graph = Graph(int8=scale is not None)
    vocabulary, width = shape
    rows = _rows(graph, width, special, bound)
    kind = TensorProto.FLOAT if scale is None else TensorProto.INT8
    item = 4 if scale is None else 1
    shared = None if scale is None else graph.quantised(rows)
    blocks = []
    for start in range(SPECIAL, vocabulary, BLOCK_TYPES):
        count = min(BLOCK_TYPES, vocabulary - start)
        weight = graph.external(tokens, offset + start * width * item, kind, [count, width])
        if shared is None or scale is None:
            scores = graph.op("Gemm", [rows, weight], {"transB": 1})
        else:
            scores = _product(graph, shared, weight, graph.constant(scale[start : start + count]))
        blocks.append(_reduced(graph, scores))
    _outputs(graph, blocks)
    return graph


def selected_output(width: int, special: Float[np.ndarray, "s D"], int8: bool, bound: Range | None) -> Graph:
    """Score the types whose weights are given."""
    graph = Graph(int8)
    rows = _rows(graph, width, special, bound)
    if int8:
        weight = graph.input("weight", TensorProto.INT8, ["K", width])
        scale = graph.input("scale", TensorProto.FLOAT, ["K"])
        scores = _product(graph, graph.quantised(rows), weight, scale)
    else:
        weight = graph.input("weight", TensorProto.FLOAT, ["K", width])
        scores = graph.op("Gemm", [rows, weight], {"transB": 1})
    _outputs(graph, [_reduced(graph, scores)])
    return graph


def _rows(graph: Graph, width: int, special: Float[np.ndarray, "s D"], bound: Range | None) -> str:
    rows = graph.input("rows", TensorProto.FLOAT, ["R", width])
    if bound is not None:
        graph.ranges[rows] = bound
    graph.output(graph.op("Gemm", [rows, graph.constant(special)], {"transB": 1}), "special")
    return rows


def _product(graph: Graph, rows: Quantised, weight: str, scale: str) -> str:
    return graph.product(rows, graph.op("Transpose", [weight], {"perm": [1, 0]}), scale)


def _reduced(graph: Graph, scores: str) -> tuple[str, str, str]:
    """Return best score, its place, and the sum of all relative to the best: each `[R, 1]`."""
    best = graph.op("ReduceMax", [scores, graph.whole(1)], {"keepdims": 1})
    place = graph.op("ArgMax", [scores], {"axis": 1, "keepdims": 1})
    relative = graph.op("Exp", [graph.op("Sub", [scores, best])])
    return best, place, graph.op("ReduceSum", [relative, graph.whole(1)], {"keepdims": 1})


def _outputs(graph: Graph, blocks: list[tuple[str, str, str]]) -> None:
    kinds = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT)
    for name, kind, parts in zip(("best", "place", "mass"), kinds, zip(*blocks, strict=True), strict=True):
        graph.output(graph.op("Concat", parts, {"axis": 1}), name, kind)
