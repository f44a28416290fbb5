"""Grammars and graphs on the kernels: sentences lie one under the other, so that nothing is padded."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.grammar.canvas import GRAMMAR, GRAPH, Geometry
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.support_tree import prefix_rules
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native import names
from pcfgnat.runtimes.native.base import Encoded, NativeRuntime, bounds_of
from pcfgnat.runtimes.native.kernels.network import fill_blanks, grammar_rules, graph_transitions
from pcfgnat.runtimes.output import Emissions
from pcfgnat.runtimes.tabulate import Tabulate

MOST_NODES = 512  # of sentences that are run together; more would not stay in the cache


class NativeTables(NativeRuntime):
    """A grammar or a graph."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options)
        self.geometry = self._geometry()
        self.framing = GRAPH if self.geometry.structure == "graph" else GRAMMAR
        shape, weights, size = self.metadata.shape, self.weights, self.size
        layers = size.layers_decoder
        first = names.COPY if shape.copy_input else names.KEYS_VALUES  # whatever, if nothing is copied
        self._decoder = (
            self.table("canvas_tokens", 3, shape.width),
            self.table("canvas_positions", shape.max_canvas_length, shape.width),
            shape.copy_input,
            *size.kind,
            weights.address,
            weights.linears([names.KEYS_VALUES, first, *names.decoder_linears(layers)], layers),
            weights.norms(names.decoder_norms(layers, size.pre_norm)),
            layers,
        )
        self._rules = self._rule_arguments()

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""
        self.check(sources)
        groups = self.groups(sources)
        yield from zip(
            groups, self.each(self._group, [[sources[i] for i in own] for own in groups]), strict=True
        )

    def _group(self, sources: Sources) -> Grammars:
        return self.drafted(sources, self.encode(sources))

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

    def drafted(self, sources: Sources, encoded: Encoded) -> Grammars:
        """Return the grammars of sources that were encoded together."""
        lengths = self.geometry.canvas_lengths(np.diff(encoded.bounds))
        bounds = bounds_of(lengths)
        states = fill_blanks(encoded.states, encoded.bounds, bounds, *self._decoder)
        chain_lengths = self.geometry.chain_lengths(lengths)
        chain, prefix = self._tables(states, bounds, chain_lengths)
        types = self.token_choices(sources)
        emissions = Emissions(
            self.output, by_sentence(states, bounds, lengths), lengths, self.framing.first_node, types
        )
        tabulate = Tabulate(chain, prefix, chain_lengths, self.threads)
        return Grammars(chain, prefix, chain_lengths, self.framing, emissions, tabulate)

    def _geometry(self) -> Geometry:
        geometry = self.metadata.shape.geometry
        if geometry is None or geometry.structure == "slots":
            found = "none" if geometry is None else "slots"
            raise CheckpointError(
                f"{self.exported.directory}: shape.geometry.structure must be grammar or graph, got {found}"
            )
        return geometry

    def _rule_arguments(self) -> tuple[object, ...]:
        size, weights, longest = self.size, self.weights, self.metadata.shape.max_canvas_length
        kind = (size.rule_heads, size.gated, weights.address)
        if self.geometry.structure == "graph":
            columns = size.columns(names.LINKS, 0)[1]
            return *kind, weights.linears([names.LINKS], 0), self.table("node_links", longest, columns)
        chain = int(self.geometry.chain_lengths(longest))
        depth = self.geometry.prefix_depth
        on_chain, off_chain = (size.columns(name, 0, depth)[1] for name in (names.ON_CHAIN, names.OFF_CHAIN))
        rules = [(rule.parent, rule.left, rule.right) for rule in prefix_rules(depth)]
        return (
            self.geometry.block,
            *kind,
            weights.linears([names.ON_CHAIN, names.OFF_CHAIN], 0, depth),
            self.table("chain_links", chain, on_chain),
            self.table("other_links", longest - chain, off_chain),
            np.array(rules, np.int64).reshape(-1, 3),
        )

    def _tables(
        self,
        states: Float32[np.ndarray, "rows D"],
        bounds: Int64[np.ndarray, "B_and_one"],
        chain_lengths: Int64[np.ndarray, "B"],
    ) -> tuple[Float32[np.ndarray, "B C d C"], Float32[np.ndarray, "B C R"]]:
        batch, longest = len(chain_lengths), int(chain_lengths.max())
        chain = np.full((batch, longest, self.geometry.block, longest), -np.inf, np.float32)
        if self.geometry.structure == "graph":
            graph_transitions(states, bounds, *self._rules, chain)
            return chain, np.zeros((batch, longest, 0), np.float32)
        prefix = np.zeros((batch, longest, len(prefix_rules(self.geometry.prefix_depth))), np.float32)
        grammar_rules(states, bounds, *self._rules, chain, prefix)
        return chain, prefix


def by_sentence(
    states: Float32[np.ndarray, "rows D"],
    bounds: Int64[np.ndarray, "B_and_one"],
    lengths: Int64[np.ndarray, "B"],
) -> Float32[np.ndarray, "B M D"]:
    """Return states of sentences side by side, padded to the longest."""
    if len(lengths) == 1:
        return states[None]
    padded = np.zeros((len(lengths), int(lengths.max()), states.shape[1]), np.float32)
    for b, length in enumerate(lengths.tolist()):
        padded[b, :length] = states[bounds[b] : bounds[b + 1]]
    return padded
