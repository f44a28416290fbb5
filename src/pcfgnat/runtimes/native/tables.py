"""Grammars and graphs on the kernels: sentences lie one under the other, so that nothing is padded."""

from collections.abc import Iterator, Sequence

import numpy as np

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.grammar.best import best_sentences
from pcfgnat.grammar.canvas import GRAMMAR, GRAPH, Geometry
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.support_tree import prefix_rules
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.base import Encoded, NativeRuntime, spans_of
from pcfgnat.runtimes.native.emissions import Drafted, NativeEmissions
from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.network import draft
from pcfgnat.runtimes.native.output import SPECIAL_COLUMNS
from pcfgnat.runtimes.tabulate import Tabulate

MOST_NODES = 512  # of sentences that are run together; more would not stay in the cache
COLUMNS = 32  # of vectors of nodes, a multiple


class NativeTables(NativeRuntime):
    """A grammar or a graph."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        self.geometry = self._geometry()
        self.framing = GRAPH if self.geometry.structure == "graph" else GRAMMAR
        self._prefix_rules = len(prefix_rules(self.geometry.prefix_depth))
        shape, weights, layers = self.metadata.shape, self.weights, self.size.layers_decoder
        self.enter(
            (m.DECODER, self.stack(layers, names.decoder_linears(layers), names.decoder_norms)),
            (m.KEYS_VALUES, weights.weights([names.KEYS_VALUES], layers)),
            (m.COPY, weights.weights([names.COPY], layers) if shape.copy_input else 0),
            (m.CANVAS_TOKENS, self.table("canvas_tokens", 3, shape.width)),
            (m.CANVAS_POSITIONS, self.table("canvas_positions", shape.max_canvas_length, shape.width)),
            (m.RULE_HEADS, self.size.rule_heads),
            (m.GATED, self.size.gated),
            (m.BLOCK, self.geometry.block),
            (m.FIRST_NODE, self.framing.first_node),
        )
        self._enter_rules()

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""
        self.check(sources)
        groups = self.groups(sources)
        yield from zip(
            groups, self.each(self._group, [[sources[i] for i in own] for own in groups]), strict=True
        )

    def _group(self, sources: Sources) -> Grammars:
        return self.drafted(self.encode(sources))

    def groups(self, sources: Sources) -> list[list[int]]:
        """Return which sentences are run together: neighbours in length, as many as the cache takes."""
        if len(sources) == 1:
            return [[0]]
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        groups: list[list[int]] = [[]]
        for index in order:
            nodes = (len(groups[-1]) + 1) * int(self.geometry.canvas_lengths(len(sources[index])))
            if groups[-1] and nodes > MOST_NODES:
                groups.append([])
            groups[-1].append(index)
        return groups

    def drafted(self, encoded: Encoded) -> Grammars:
        """Return the grammars of sources that were encoded together."""
        geometry = self.geometry
        nodes = [int(geometry.canvas_lengths(end - begin)) for begin, end in encoded.spans.tolist()]
        spans, batch, longest, rows = spans_of(nodes), len(nodes), max(nodes), sum(nodes)
        chain_lengths = np.array([geometry.chain_lengths(count) for count in nodes], np.int64)
        size, width = int(geometry.chain_lengths(longest)), self.size.width
        chain = np.empty((batch, size, geometry.block, size), np.float32)
        prefix = np.zeros((batch, size, self._prefix_rules), np.float32)
        states, bytes_ = np.empty((rows, width), np.float32), np.empty((rows, width), np.uint8)
        scales, special = np.empty(rows, np.float32), np.empty((rows, SPECIAL_COLUMNS), np.float32)
        row_score, row_token = np.empty(rows, np.float32), np.empty(rows, np.int64)
        score, token = np.empty((batch, longest), np.float32), np.empty((batch, longest), np.int64)
        types, bounds = np.empty(self.most_types(encoded), np.int64), np.zeros(batch + 1, np.int64)
        draft(
            self.operations, self.model, encoded.bytes, encoded.scales, encoded.ids, encoded.spans, spans,
            chain, prefix, states, bytes_, scales, types, bounds, special, row_score, row_token, score, token,
        )  # fmt: skip
        drafted = Drafted(bytes_, scales, spans, types, bounds, row_score, row_token, special, score, token)
        emissions = NativeEmissions.of(self.output, states, drafted, self.framing.first_node)
        tabulate = Tabulate(chain, prefix, chain_lengths, self.threads)
        return Grammars(chain, prefix, chain_lengths, self.framing, emissions, tabulate, best_sentences)

    def _geometry(self) -> Geometry:
        geometry = self.metadata.shape.geometry
        if geometry is None or geometry.structure == "slots":
            found = "none" if geometry is None else "slots"
            raise CheckpointError(
                f"{self.exported.directory}: shape.geometry.structure must be grammar or graph, got {found}"
            )
        return geometry

    def _enter_rules(self) -> None:
        weights, longest = self.weights, self.metadata.shape.max_canvas_length
        depth = self.geometry.prefix_depth
        if self.geometry.structure == "graph":
            self._enter_roles(m.ON_CHAIN, m.CHAIN_POSITIONS, names.LINKS, "node_links", longest)
            return
        chain = int(self.geometry.chain_lengths(longest))
        self._enter_roles(m.ON_CHAIN, m.CHAIN_POSITIONS, names.ON_CHAIN, "chain_links", chain)
        self._enter_roles(m.OFF_CHAIN, m.OTHER_POSITIONS, names.OFF_CHAIN, "other_links", longest - chain)
        rules = [(rule.parent, rule.left, rule.right) for rule in prefix_rules(depth)]
        address = weights.address(np.array(rules, np.int64).reshape(-1, 3))
        self.enter((m.PREFIX_RULES, address), (m.PREFIX_COUNT, len(rules)))

    def _enter_roles(self, weight: int, positions: int, name: str, table: str, rows: int) -> None:
        """Enter the weight of nodes' vectors in their roles, and what positions add to them."""
        depth = self.geometry.prefix_depth
        columns = self.size.columns(name, 0, depth)[1]
        padded = (columns + COLUMNS - 1) // COLUMNS * COLUMNS
        self.enter(
            (weight, self.weights.weights([name], 0, depth)),
            (positions, self.table(table, rows, columns, padded)),
        )
