"""One-pass networks on onnxruntime: one run of the graph scores rules and states of all nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from jaxtyping import Float32, Int64

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.grammar.canvas import GRAMMAR, GRAPH, Framing
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.exported import NETWORK, START, Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.onnx.base import OnnxRuntime
from pcfgnat.runtimes.onnx.grouping import alike, tokens_of_a_run
from pcfgnat.runtimes.onnx.inputs import Inputs
from pcfgnat.runtimes.output import Best, Emissions
from pcfgnat.runtimes.tabulate import Tabulate
from pcfgnat.text.special import SPECIAL_TOKENS

Scores = Mapping[str, np.ndarray]
STRUCTURES = {  # by network
    "pcfg": ("grammar",),
    "dag": ("graph",),
    "ctc": ("slots",),
    "hybrid": ("grammar", "graph"),
}


class OnePass(OnnxRuntime):
    """A network whose canvas follows from the source."""

    def __init__(
        self, exported: Exported, options: ExportedOptions, framing: Framing, outputs: Sequence[str]
    ) -> None:
        super().__init__(exported, options)
        name, geometry = self.metadata.network_name, self.metadata.shape.geometry
        if geometry is None or geometry.structure not in STRUCTURES[name]:
            found = "none" if geometry is None else repr(geometry.structure)
            known = " or ".join(map(repr, STRUCTURES[name]))
            raise CheckpointError(
                f"{exported.directory}: shape.geometry.structure of {name} must be {known}, got {found}"
            )
        self.geometry, self.framing = geometry, framing
        start = self.session(START, ("started", "query")) if START in self.metadata.files else None
        self.inputs = Inputs(exported, self.embedded, geometry, start)
        self._network = self.session(NETWORK, ("states", *outputs))
        self._run_tokens = tokens_of_a_run(exported.network_weights, geometry.nodes_per_token)

    def runs(self, sources: Sources) -> Iterator[tuple[list[int], Scores, Emissions]]:
        """Run sentences of similar length together."""
        for group in self.groups(sources):
            own = [sources[index] for index in group]
            yield group, *self.run(own, self.inputs.of(own))

    def groups(self, sources: Sources) -> list[list[int]]:
        """Return which sentences are run together; raise an error for what cannot be read."""
        self.check(sources)
        return alike([len(source) for source in sources], self._run_tokens)

    def run(self, sources: Sources, inputs: Mapping[str, np.ndarray]) -> tuple[Scores, Emissions]:
        """Run the network once."""
        lengths = self.geometry.canvas_lengths(np.array([len(source) for source in sources]))
        scores = self._network(inputs)
        states = scores["states"].reshape(len(sources), int(lengths.max()), -1)
        types = self.token_choices(sources)
        return scores, Emissions(self.output, states, lengths, self.framing.first_node, types)


class OnnxTables(OnePass):
    """A grammar or a graph."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        geometry = exported.metadata.shape.geometry
        is_graph = geometry is not None and geometry.structure == "graph"
        self._rules = "transitions" if is_graph else "chain"
        super().__init__(exported, options, GRAPH if is_graph else GRAMMAR, (self._rules,))

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield groups of sources that were run together, as indices, and their grammars."""
        for group, scores, emissions in self.runs(sources):
            yield group, self.tabulated(scores, emissions)

    def tabulated(self, scores: Scores, emissions: Emissions) -> Grammars:
        """Return the grammars that a run scored."""
        chain_lengths = self.geometry.chain_lengths(emissions.lengths)
        batch, longest = len(chain_lengths), int(chain_lengths.max())
        chain = scores[self._rules].reshape(batch, longest, -1, longest)
        prefix = scores.get("prefix", np.zeros((batch, longest, 0), dtype=np.float32))
        tabulate = Tabulate(chain, prefix, chain_lengths, self.threads)
        return Grammars(chain, prefix, chain_lengths, self.framing, emissions, tabulate)


class OnnxFrames(OnePass):
    """Slots that collapse."""

    def __init__(self, exported: Exported, options: ExportedOptions) -> None:
        super().__init__(exported, options, Framing(ends=False, blank=SPECIAL_TOKENS.pad), ())

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence["OnnxSlotScores"]]]:
        """Yield groups of sources that were run together, as indices, and their slots."""
        for group, _, emissions in self.runs(sources):
            slots = [np.arange(length) for length in emissions.lengths]
            best = cache(partial(emissions.plain, slots))  # one run for all, if anybody asks
            yield group, [OnnxSlotScores(emissions, index, best) for index in range(len(group))]


@dataclass(frozen=True)
class OnnxSlotScores:
    """The slots of one sentence; the blank is the id of padding."""

    emissions: Emissions
    index: int
    unrestricted: Callable[[], list[Best]]

    def best(self) -> tuple[Float32[np.ndarray, "T"], Int64[np.ndarray, "T"]]:
        """Return the best token or blank of each slot."""
        found = self.unrestricted()[self.index]
        blank = found.special[:, SPECIAL_TOKENS.pad]
        empty = blank >= found.score
        return np.where(empty, blank, found.score), np.where(empty, SPECIAL_TOKENS.pad, found.token)

    def log_probs(self) -> Float32[np.ndarray, "T V"]:
        """Return log-probabilities of all tokens; -inf where not allowed."""
        rows = self.emissions.rows(self.index, np.arange(self.emissions.lengths[self.index]))
        banned = [token for token in SPECIAL_TOKENS.ids if token != SPECIAL_TOKENS.pad]
        rows[:, banned] = -np.inf
        return rows
