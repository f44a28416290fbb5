"""Networks as torch runs them, behind what decoding asks for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pcfgnat.grammar.canvas import Framing
from pcfgnat.grammar.decoding import Emissions, Grammars
from pcfgnat.networks import (
    AutoregressiveNetwork,
    Canvas,
    CanvasIds,
    CanvasNetwork,
    CTCNetwork,
    DiscoNetwork,
    FlowSeqNetwork,
    HybridNetwork,
    ImputerNetwork,
    Memory,
    Network,
    PredictedLengthNetwork,
    inference,
)
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import all_emissions, translation_distribution
from pcfgnat.runtimes.base import Runtime, Sources
from pcfgnat.runtimes.torch_hybrid import TorchHybrid
from pcfgnat.runtimes.torch_latents import TorchLatents
from pcfgnat.runtimes.torch_steps import TorchSteps
from pcfgnat.structures import CTC
from pcfgnat.structures.by_length import ByLength
from pcfgnat.structures.distribution import best_allowed
from pcfgnat.structures.emissions import TensorEmissions, as_array
from pcfgnat.text.special import SPECIAL_TOKENS


class TorchRuntime:
    """A network of torch."""

    def __init__(self, network: Network) -> None:
        self.network = network

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self.network.max_source_length


class TorchTables(TorchRuntime):
    """A network whose nodes are joined by rules."""

    def __init__(self, network: CanvasNetwork) -> None:
        super().__init__(network)
        self._network = network

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield all sources with their grammars, which were run together."""
        if sources:
            found = translation_distribution(self._network, self._network.padded(sources))
            assert isinstance(found, ByLength)
            yield range(len(sources)), found.grammars(SPECIAL_TOKENS)


class TorchFrames(TorchRuntime):
    """A network whose slots collapse."""

    def __init__(self, network: CTCNetwork) -> None:
        super().__init__(network)
        self._network = network

    @property
    def framing(self) -> Framing:
        """The framing, which has the blank."""
        return self._network.framing

    def frames(self, sources: Sources) -> Iterator[tuple[Sequence[int], Sequence["TensorSlots"]]]:
        """Yield all sources with their slots, which were run together."""
        if sources:
            found = translation_distribution(self._network, self._network.padded(sources))
            assert isinstance(found, CTC)
            rows = zip(found.log_probs, found.num_slots.tolist(), strict=True)
            yield range(len(sources)), [TensorSlots(slots[:count], found.blank) for slots, count in rows]


class TorchOpenFrames(TorchFrames):
    """A network whose slots collapse, and which reads what some of them emit."""

    def read_frames(self, sources: Sources) -> "TorchFramesReader":
        """Encode sources."""
        network = self._network
        with inference(network):
            return TorchFramesReader(network, network.encode(network.padded(sources)))


@dataclass(frozen=True)
class TorchFramesReader:
    """Sources that have been encoded."""

    network: CTCNetwork
    memory: Memory

    @property
    def canvas_lengths(self) -> Int64[np.ndarray, "B"]:
        """How many slots each sentence has."""
        return self.network.canvas_lengths(self.memory, None).cpu().numpy()

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Sequence["TensorSlots"]:
        """Run the decoder over R canvases, each of a sentence."""
        with inference(self.network):
            filled = self.network.fill(*_canvases(self.network, self.memory, sentence, canvas, lengths))
            rows = zip(all_emissions(self.network, filled), lengths.tolist(), strict=True)
            return [TensorSlots(slots[:count], BLANK) for slots, count in rows]


@dataclass(frozen=True)
class TensorSlots:
    """The slots of one sentence."""

    scores: Float[Tensor, "T V"]
    blank: int

    def best(self) -> tuple[Float[np.ndarray, "T"], Int64[np.ndarray, "T"]]:
        """Return the best token or blank of each slot."""
        scores, tokens = best_allowed(self.scores[None], self._banned)
        return as_array(scores[0]), tokens[0].cpu().numpy()

    def log_probs(self) -> Float[np.ndarray, "T V"]:
        """Return log-probabilities of all tokens; -inf where not allowed."""
        allowed = as_array(self.scores).copy()
        allowed[:, self._banned] = -np.inf
        return allowed

    @property
    def _banned(self) -> list[int]:
        return [token for token in SPECIAL_TOKENS.ids if token != self.blank]


class TorchSlots(TorchRuntime):
    """A network that predicts the number of its slots."""

    def __init__(self, network: PredictedLengthNetwork) -> None:
        super().__init__(network)
        self._network = network

    @property
    def max_canvas_length(self) -> int:
        """The longest canvas, bos and eos included."""
        return self._network.embeddings.target_positions.limit

    def read(self, sources: Sources) -> "TorchSlotsReader":
        """Encode sources."""
        with inference(self._network):
            return TorchSlotsReader(self._network, self._network.encode(self._network.padded(sources)))


@dataclass(frozen=True)
class TorchSlotsReader:
    """Sources that have been encoded."""

    network: PredictedLengthNetwork
    memory: Memory

    def length_log_probs(self) -> Float[np.ndarray, "B L"]:
        """Return log-probabilities of the classes of lengths."""
        with inference(self.network):
            return as_array(self.network.length_scores(self.memory).log_softmax(-1))

    def fill(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
    ) -> Emissions:
        """Run the decoder over R canvases, each of a sentence."""
        with inference(self.network):
            filled = self.network.fill(*_canvases(self.network, self.memory, sentence, canvas, lengths))
            return _emissions(self.network, filled)


class TorchVisibleSlots(TorchSlots):
    """A network of which each slot sees a set of others of its own."""

    def __init__(self, network: DiscoNetwork) -> None:
        super().__init__(network)
        self._disco = network

    def read(self, sources: Sources) -> "TorchVisibleReader":
        """Encode sources."""
        return self.read_visible(sources)

    def read_visible(self, sources: Sources) -> "TorchVisibleReader":
        """Encode sources."""
        with inference(self._disco):
            return TorchVisibleReader(self._disco, self._disco.encode(self._disco.padded(sources)))


@dataclass(frozen=True)
class TorchVisibleReader(TorchSlotsReader):
    """Sources that have been encoded."""

    network: DiscoNetwork

    def fill_visible(
        self,
        sentence: Int64[np.ndarray, "R"],
        canvas: Int64[np.ndarray, "R M"],
        lengths: Int64[np.ndarray, "R"],
        visible: Bool[np.ndarray, "R M M"],
    ) -> Emissions:
        """Run the decoder over R canvases, of which each slot sees what it may."""
        with inference(self.network):
            memory, ids = _canvases(self.network, self.memory, sentence, canvas, lengths)
            seen = torch.from_numpy(visible).to(self.network.device)
            return _emissions(self.network, self.network.fill_visible(memory, ids, seen))


def _canvases(
    network: CanvasNetwork,
    memory: Memory,
    sentence: Int64[np.ndarray, "R"],
    canvas: Int64[np.ndarray, "R M"],
    lengths: Int64[np.ndarray, "R"],
) -> tuple[Memory, CanvasIds]:
    """Return rows of canvases, and what their sentences were encoded to."""
    rows, ids, sizes = (torch.from_numpy(array).to(network.device) for array in (sentence, canvas, lengths))
    return Memory(memory.states[rows], memory.mask[rows], memory.lengths[rows]), CanvasIds(ids, sizes)


def _emissions(network: CanvasNetwork, filled: Canvas) -> Emissions:
    emit = all_emissions(network, filled)
    framing = network.framing
    return TensorEmissions(emit, framing.first_node, filled.lengths - 1, SPECIAL_TOKENS, framing.blank)


def torch_runtime(network: Network) -> Runtime:
    """Return what decoding needs of a network."""
    if isinstance(network, HybridNetwork):
        return TorchHybrid(network)
    if isinstance(network, AutoregressiveNetwork):
        return TorchSteps(network)
    if isinstance(network, FlowSeqNetwork):
        return TorchLatents(network)
    if isinstance(network, DiscoNetwork):
        return TorchVisibleSlots(network)
    if isinstance(network, PredictedLengthNetwork):
        return TorchSlots(network)
    if isinstance(network, ImputerNetwork):
        return TorchOpenFrames(network)
    if isinstance(network, CTCNetwork):
        return TorchFrames(network)
    assert isinstance(network, CanvasNetwork)
    return TorchTables(network)
