"""The engine: sentences of ids in, hypotheses out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from pcfgnat.checkpoints.metadata import SPECIAL_TOKENS, CheckpointError
from pcfgnat.grammar.collapse import collapsed
from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.grammar.lengths import LengthChooser, best_ranked, one_by_penalty
from pcfgnat.runtimes.onnx.decoding import Grammars
from pcfgnat.runtimes.onnx.description import EXACT, NETWORK, SELECTED, START, Exported
from pcfgnat.runtimes.onnx.grouping import alike, tokens_of_a_run
from pcfgnat.runtimes.onnx.inputs import Inputs
from pcfgnat.runtimes.onnx.layout import Layout
from pcfgnat.runtimes.onnx.output import Emissions, OutputLayer
from pcfgnat.runtimes.onnx.runtime import available_cores, open_session
from pcfgnat.structures import Hypothesis, Search
from pcfgnat.text.shortlist import SHORTLIST, Shortlist

BY_LENGTH = ("viterbi", "joint-viterbi")


@dataclass(frozen=True)
class EngineOptions:
    """How to run.

    threads: None stands for one for each core
    exact:   whether to look at the whole vocabulary, even if there is a shortlist; None: unless the shortlist
             is known to cost next to nothing
    """

    threads: int | None = None
    exact: bool | None = None


class Engine:
    """An exported model that translates ids, on onnxruntime."""

    def __init__(self, exported: Exported, options: EngineOptions | None = None) -> None:
        options = options or EngineOptions()
        description = exported.description
        self.description = description
        self.threads = options.threads or available_cores()
        self._layout = Layout.of(description)
        self._run_tokens = tokens_of_a_run(exported.network_weights, self._layout.nodes_per_token)
        load = partial(open_session, threads=self.threads)
        start = load(exported.directory / START) if START in description.files else None
        self._inputs = Inputs(exported, start)
        self._network = load(exported.directory / NETWORK)
        tokens = exported.table("tokens")
        scales = exported.table("token_scales") if exported.has("token_scales") else None
        self._output = OutputLayer(
            tokens,
            scales,
            cache(partial(load, exported.directory / EXACT)),
            cache(partial(load, exported.directory / SELECTED)),
        )
        self._shortlist = _shortlist(exported, options.exact)

    @classmethod
    def load(cls, directory: Path | str, options: EngineOptions | None = None) -> "Engine":
        """Open a directory that `pcfgnat export` wrote."""
        return cls(Exported.open(directory), options)

    @property
    def strategies(self) -> tuple[str, ...]:
        """What `Search.strategy` may be, the default first."""
        return self.description.strategies

    @property
    def default_search(self) -> Search:
        """How to translate when nobody says otherwise."""
        return self.description.search.search()

    @property
    def max_source_length(self) -> int:
        """The longest source that can be translated, bos and eos counted."""
        return self.description.shape.max_source_length

    def translate(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        """Return the best translations of each sentence, as the model does in torch."""
        if search.strategy in BY_LENGTH:
            return self._translated(sources, search, best_ranked(search.length_penalty, search.results))
        return self._translated(sources, search, one_by_penalty((search.length_penalty,)))

    def sweep(
        self, sources: Sequence[Sequence[int]], search: Search, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation of each sentence under each length penalty, from one decoding."""
        return self._translated(sources, search, one_by_penalty(length_penalties))

    def _translated(
        self, sources: Sequence[Sequence[int]], search: Search, choose: LengthChooser
    ) -> list[list[Hypothesis]]:
        search.require(*self.strategies)
        self._check(sources)
        limits = search.max_length or tuple(2 * len(source) for source in sources)
        if isinstance(limits, int):
            limits = (limits,) * len(sources)
        found: dict[int, list[Hypothesis]] = {}
        for group in alike([len(source) for source in sources], self._run_tokens):
            own = replace(search, max_length=tuple(limits[index] for index in group))
            results = self._decoded([sources[index] for index in group], own, choose)
            found.update(zip(group, results, strict=True))
        return [found[index] for index in range(len(sources))]

    def lattice_scores(self, source: Sequence[int], top: int) -> LatticeScores:
        """Return what is known before decoding of one source, `bos … eos`: see `HasLattice`."""
        kind = self.description.model
        if kind == "ctc":
            raise ValueError("a lattice needs a model whose nodes are joined by rules: pcfg or dag, got ctc")
        self._check([source])
        grammars = self._grammars(*self._scored([source]))
        illegal = self._layout.rule_inputs(np.array([len(source)]))["illegal"] < 0
        chain = np.where(illegal.reshape(grammars.chain.shape), -np.inf, grammars.chain)
        ids, log_probs = self._output.top(grammars.emissions.states[0], top)
        return LatticeScores(kind, self._layout.depth, ids, log_probs, chain[0], grammars.prefix[0])

    def _decoded(
        self, sources: Sequence[Sequence[int]], search: Search, choose: LengthChooser
    ) -> list[list[Hypothesis]]:
        scores, emissions = self._scored(sources)
        if self.description.model == "ctc":
            return [[best] * len(choose([0.0], [1])) for best in _collapsed(emissions)]
        return self._grammars(scores, emissions).decode(search, choose)

    def _scored(self, sources: Sequence[Sequence[int]]) -> tuple[dict[str, np.ndarray], Emissions]:
        """Run the network."""
        canvas_lengths = self._layout.canvas_lengths(np.array([len(source) for source in sources]))
        scores = self._network(self._inputs.of(sources))
        states = scores["states"].reshape(len(sources), int(canvas_lengths.max()), -1)
        types = None if self._shortlist is None else [self._shortlist.types(source) for source in sources]
        first = 1 if self.description.model == "pcfg" else 0  # symbol 0 of a grammar emits nothing
        bos, eos = SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos
        emissions = Emissions(self._output, states, canvas_lengths, first, bos, eos, types)
        return scores, emissions

    def _grammars(self, scores: Mapping[str, np.ndarray], emissions: Emissions) -> Grammars:
        chain_lengths = self._layout.chain_lengths_of(emissions.lengths)
        batch, longest = len(chain_lengths), int(chain_lengths.max())
        chain = scores["chain" if emissions.first else "transitions"].reshape(batch, longest, -1, longest)
        prefix = scores.get("prefix", np.zeros((batch, longest, 0), dtype=np.float32))
        return Grammars(chain, prefix, chain_lengths, emissions, 1 - emissions.first, self.threads)

    def _check(self, sources: Sequence[Sequence[int]]) -> None:
        vocabulary, longest = self.description.vocabulary, self.max_source_length
        for source in sources:
            if not 1 <= len(source) <= longest:
                raise ValueError(f"a source must have 1 … {longest} tokens, got {len(source)}")
            if not (min(source) >= 0 and max(source) < vocabulary):
                raise ValueError(f"ids must be in 0 … {vocabulary - 1}, got {min(source)} … {max(source)}")


def _shortlist(exported: Exported, exact: bool | None) -> Shortlist | None:
    facts = exported.description.shortlist
    there = SHORTLIST in exported.description.files
    if exact is False and not there:
        raise CheckpointError(f"{exported.directory} has no shortlist: export it with one")
    if exact or not there or (exact is None and not (facts is not None and facts.by_default)):
        return None
    return Shortlist.load(exported.directory / SHORTLIST)


def _collapsed(emissions: Emissions) -> list[Hypothesis]:
    """Take the best token or blank of every slot, drop what is repeated, and add bos and eos, of node -1."""
    hypotheses = []
    blank = SPECIAL_TOKENS.pad
    for found in emissions.plain([np.arange(length) for length in emissions.lengths]):
        empty = found.special[:, blank] >= found.score
        ids = np.where(empty, blank, found.token).tolist()
        best = collapsed(np.where(empty, found.special[:, blank], found.score).tolist(), ids, blank)
        sentence, nodes = (SPECIAL_TOKENS.bos, *best.ids, SPECIAL_TOKENS.eos), (-1, *best.nodes, -1)
        hypotheses.append(replace(best, ids=sentence, nodes=nodes))
    return hypotheses
