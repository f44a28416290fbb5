"""Scores of rules and transitions as part of the graph: `nn.Links` and what the models make of it.

What a node's position contributes to its vectors is known beforehand: it is kept in a table, with the gate's
bias. The factor of the scores is put into the vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from onnx import TensorProto

from pcfgnat.export.graph import Graph
from pcfgnat.export.network import Weights
from pcfgnat.grammar.support_tree import prefix_rules
from pcfgnat.nn import LinkConfig

GATE = -1  # stands among the roles for the gate


@dataclass(frozen=True)
class Projection:
    """Vectors of nodes in some roles, side by side: from a state, and from a position."""

    of_states: Float[np.ndarray, "F D"]
    of_positions: Float[np.ndarray, "limit F"]
    sizes: tuple[int, ...]


class LinkGraph:
    """Adds links to a graph."""

    def __init__(self, graph: Graph, config: LinkConfig, width: int, weights: Weights, name: str) -> None:
        self.graph = graph
        self.heads, self.width = config.heads, width
        self.gated = f"{name}.gate.weight" in weights
        self._weights, self._name = weights, name
        self._scale = (config.heads / width) ** 0.25 if config.scale else 1.0  # of each of two factors

    def projection(self, roles: Sequence[int], limit: int) -> Projection:
        """Return the vectors of these roles, for positions `0 … limit - 1`."""
        parts, offsets = [], []
        for role in roles:
            if role != GATE:
                parts.append(self._weights[f"{self._name}.project.{role}.weight"] * self._scale)
                offsets.append(np.zeros(self.width))
            elif self.gated:
                parts.append(self._weights[f"{self._name}.gate.weight"])
                offsets.append(self._weights[f"{self._name}.gate.bias"])
        weight, offset = np.concatenate(parts), np.concatenate(offsets)
        table = np.tile(offset, (limit, 1))
        if (positions := self._weights.get(f"{self._name}.positions.weight")) is not None:
            table += positions[:limit].astype(np.float64) @ weight[:, self.width :].T.astype(np.float64)
        of_states = weight[:, : self.width].astype(np.float32)
        return Projection(of_states, table.astype(np.float32), tuple(len(part) for part in parts))

    def vectors(self, states: str, projection: Projection, name: str, index: str | None = None) -> list[str]:
        """Return `[B, P, ·]` for each role; the input `name` brings the table's rows of the P nodes."""
        graph = self.graph
        positions = graph.input(name, TensorProto.FLOAT, [name, sum(projection.sizes)])
        rows = states if index is None else graph.op("Gather", [states, index], {"axis": 0})
        if states in graph.ranges:
            graph.ranges[rows] = graph.ranges[states]
        shape = graph.join(graph.whole(-1), graph.op("Shape", [positions]))
        found = graph.reshape(graph.linear(rows, projection.of_states), shape)
        together = graph.op("Add", [found, positions])
        return graph.split(together, projection.sizes, axis=2) if len(projection.sizes) > 1 else [together]

    def by_head(self, vectors: str) -> str:
        """`[B, P, D]` to `[B, P, H, E]`."""
        return self.graph.reshape(vectors, self.graph.whole(0, 0, self.heads, -1))

    def products(self, left: str, right: str) -> str:
        """From `[B, P, H, E]` and `[B, Q, H, E]` to `[B, H, P, Q]`."""
        first = self.graph.op("Transpose", [left], {"perm": [0, 2, 1, 3]})
        second = self.graph.op("Transpose", [right], {"perm": [0, 2, 3, 1]})
        return self.graph.op("MatMul", [first, second])

    def mixed(self, scores: str, gate: str | None) -> str:
        """Normalise `[B, H, P, K]` by head, mix the heads by the gate `[B, P, H]`: `[B, P, K]` in logs."""
        graph = self.graph
        chances = graph.op("Softmax", [scores], {"axis": -1})
        if gate is None:
            total = graph.op("ReduceMean", [chances, graph.whole(1)], {"keepdims": 0})
        else:
            shares = graph.op("Transpose", [graph.op("Softmax", [gate], {"axis": -1})], {"perm": [0, 2, 1]})
            weighted = graph.op("Mul", [chances, graph.op("Unsqueeze", [shares, graph.whole(3)])])
            total = graph.op("ReduceSum", [weighted, graph.whole(1)], {"keepdims": 0})
        return graph.op("Log", [total])


def add_transitions(links: LinkGraph, states: str, limit: int) -> dict[str, np.ndarray]:
    """Add the transitions of a graph of vertices, `[B, M, M]`; return the tables that it reads."""
    graph = links.graph
    projection = links.projection((0, 1, GATE), limit)
    before, after, *gate = links.vectors(states, projection, "node_links")
    scores = links.products(links.by_head(before), links.by_head(after))
    illegal = graph.input("illegal", TensorProto.FLOAT, ["batch", 1, "M", "M"])
    scores = graph.op("Add", [scores, illegal])
    graph.output(links.mixed(scores, gate[0] if gate else None), "transitions")
    return {"node_links": projection.of_positions}


def add_rules(links: LinkGraph, states: str, depth: int, chain_limit: int) -> dict[str, np.ndarray]:
    """Add the rules of a right-heavy grammar as `RuleScores` has them; return the tables that it reads.

    Symbols on the main chain and off it are projected apart, because each kind has its own roles. `places`
    says where among those off the chain each prefix tree lies.
    """
    graph, block = links.graph, 1 << depth
    parent_role, left_role, right_role = range(3)
    symbol = np.arange((chain_limit - 1) * block + 2)
    on_chain = (symbol > 0) & ((symbol - 1) % block == 0)
    index = graph.input("chain_index", TensorProto.INT64, ["chain_rows"])
    projection = links.projection((parent_role, right_role, GATE), len(symbol))
    parent, right, *gate = links.vectors(states, projection, "chain_links", index)
    inner = (parent_role, right_role, GATE) if depth > 1 else ()
    off_index = graph.input("other_index", TensorProto.INT64, ["other_rows"])
    off_projection = links.projection((left_role, *inner), len(symbol))
    others = links.vectors(states, off_projection, "other_links", off_index)
    places = graph.input("places", TensorProto.INT64, ["C", block])

    scores = _chain_scores(links, parent, _taken(graph, others[0], places), right)
    illegal = graph.input("illegal", TensorProto.FLOAT, ["batch", 1, "C", "K"])
    shape = graph.join(graph.whole(0, 0), graph.size(illegal, 2), graph.whole(-1))
    scores = graph.op("Add", [graph.reshape(scores, shape), illegal])
    graph.output(links.mixed(scores, gate[0] if gate else None), "chain")
    if depth > 1:
        graph.output(_prefix_scores(links, others, places, depth), "prefix")
    return {
        "chain_links": projection.of_positions[on_chain],
        "other_links": off_projection.of_positions[~on_chain],
    }


def _chain_scores(links: LinkGraph, parent: str, lefts: str, right: str) -> str:
    """From `[B, C, D]`, `[B, C·d, D]` and `[B, C, D]` to `[B, H, C·d, C]`.

    `(q + k)·r + q·k` is one product, when q·k is one more component of the first vector and 1 of the second.
    """
    graph = links.graph
    block_shape = graph.join(graph.whole(0), graph.size(parent, 1), graph.whole(-1, links.width))
    by_parent = graph.reshape(lefts, block_shape)
    pair = graph.op("Unsqueeze", [parent, graph.whole(2)])
    flat = graph.whole(0, -1, links.heads, links.width // links.heads)
    both = graph.reshape(graph.op("Add", [pair, by_parent]), flat)
    own = graph.reshape(graph.op("Mul", [pair, by_parent]), flat)
    own = graph.op("ReduceSum", [own, graph.whole(3)], {"keepdims": 1})
    first = graph.op("Concat", [both, own], {"axis": 3})
    one = graph.constant(np.array(1.0, dtype=np.float32))
    second = graph.op("Pad", [links.by_head(right), graph.whole(0, 0, 0, 0, 0, 0, 0, 1), one])
    return links.products(first, second)


def _prefix_scores(links: LinkGraph, others: Sequence[str], places: str, depth: int) -> str:
    """Score the rules inside prefix trees, parent by parent: `[B, C, R]`."""
    graph, rules = links.graph, prefix_rules(depth)
    left, parent, right, *gate = others
    found = []
    for offset in sorted({rule.parent for rule in rules}):
        own = [rule for rule in rules if rule.parent == offset]
        columns = {
            "parent": [offset],
            "left": [rule.left for rule in own],
            "right": [rule.right for rule in own],
        }
        at = {
            name: graph.op("Gather", [places, graph.whole(*numbers)], {"axis": 1})
            for name, numbers in columns.items()
        }
        shape = graph.join(graph.whole(0), graph.size(places, 0), graph.whole(-1, links.width))
        q = graph.reshape(_taken(graph, parent, at["parent"]), shape)  # B C 1 D
        k = graph.reshape(_taken(graph, left, at["left"]), shape)
        r = graph.reshape(_taken(graph, right, at["right"]), shape)
        scores = graph.op("Add", [graph.op("Mul", [graph.op("Add", [q, k]), r]), graph.op("Mul", [q, k])])
        scores = graph.reshape(scores, graph.whole(0, 0, len(own), links.heads, -1))
        scores = graph.op("ReduceSum", [scores, graph.whole(4)], {"keepdims": 0})  # B C K H
        scores = graph.op("Transpose", [scores], {"perm": [0, 3, 1, 2]})
        found.append(links.mixed(scores, _taken(graph, gate[0], at["parent"]) if gate else None))
    return graph.op("Concat", found, {"axis": 2})


def _taken(graph: Graph, vectors: str, places: str) -> str:
    """Take from `[B, O, F]` the nodes at these places, all in one row."""
    return graph.op("Gather", [vectors, graph.reshape(places, graph.whole(-1))], {"axis": 1})
