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
    ImputerNetwork,
    Memory,
    Network,
    PredictedLengthNetwork,
    inference,
)
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import all_emissions, translation_distribution
from pcfgnat.runtimes.base import NextTokens, Reading, Runtime, Sources
from pcfgnat.runtimes.torch_latents import TorchLatents
from pcfgnat.structures import CTC
from pcfgnat.structures.by_length import ByLength
from pcfgnat.structures.distribution import best_allowed
from pcfgnat.structures.emissions import TensorEmissions, as_array
from pcfgnat.text.special import SPECIAL_TOKENS

CHUNK_ROWS = 1024  # states whose tokens are scored together


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


class TorchSteps(TorchRuntime):
    """A network that writes token by token."""

    def __init__(self, network: AutoregressiveNetwork) -> None:
        super().__init__(network)
        self._network = network

    @property
    def max_target_length(self) -> int:
        """The longest sentence that can be written; its last token is never read."""
        return self._network.embeddings.target_positions.limit + 1

    def start(self, sources: Sources) -> "TorchStepper":
        """Encode sources."""
        with inference(self._network), torch.inference_mode():
            return TorchStepper(self._network, self._network.encode(self._network.padded(sources)))


class TorchStepper:
    """A decoder with its memory of one batch."""

    def __init__(self, network: AutoregressiveNetwork, memory: Memory) -> None:
        self._network = network
        self._cache = network.decoder.start(memory.states, memory.mask)
        self._position = 0
        ends = SPECIAL_TOKENS.eos
        banned = [token for token in SPECIAL_TOKENS.ids if token != ends]
        self._banned = torch.tensor(banned, device=network.device)

    def step(
        self, tokens: Int64[np.ndarray, "B Q"], visible: Bool[np.ndarray, "B Q S"] | None, width: int | None
    ) -> NextTokens:
        """Read one more token of each hypothesis, and return the `width` best next ones, all if None."""
        network = self._network
        with inference(network), torch.inference_mode():
            read = torch.from_numpy(tokens).to(network.device)
            seen = None if visible is None else torch.from_numpy(visible).to(network.device)
            embedded = network.embeddings.target_step(read, self._position)
            states = network.decoder.step(embedded, seen, self._cache)
            self._position += 1
            log_probs = network.token_log_probs(states.flatten(0, 1)).view(*tokens.shape, -1)
            log_probs.index_fill_(2, self._banned, -torch.inf)
            vocabulary = log_probs.shape[2]
            best, following = log_probs.topk(min(width or vocabulary, vocabulary), dim=2)
            end = log_probs[:, :, SPECIAL_TOKENS.eos]
            return NextTokens(best.cpu().numpy(), following.cpu().numpy(), end.cpu().numpy())

    def read(
        self,
        tokens: Int64[np.ndarray, "B Q"],
        following: Int64[np.ndarray, "B Q"],
        kept: Int64[np.ndarray, "B"],
    ) -> Reading:
        """Read Q consecutive tokens of each sentence, behind the first `kept[b]` that it has read."""
        network = self._network
        with inference(network), torch.inference_mode():
            ids, given, ends = (
                torch.from_numpy(array).to(network.device) for array in (tokens, following, kept)
            )
            place = ends.unsqueeze(1) + torch.arange(ids.shape[1], device=ids.device)  # B Q
            known = torch.arange(int(ends.max()) + ids.shape[1], device=ids.device)
            positions = place.clamp(max=network.embeddings.target_positions.limit - 1)  # of padding
            self._cache.rewind(ends)
            embedded = network.embeddings.target_at(ids, positions)
            states = network.decoder.step(embedded, known <= place.unsqueeze(2), self._cache)
            chunks = (torch.split(rows, CHUNK_ROWS) for rows in (states.flatten(0, 1), given.flatten()))
            parts = [self._read(*chunk) for chunk in zip(*chunks, strict=True)]
            found = (torch.cat(part).view(tokens.shape).cpu().numpy() for part in zip(*parts, strict=True))
            return Reading(*found)

    def _read(self, states: Float[Tensor, "R D"], given: Int64[Tensor, "R"]) -> tuple[Tensor, ...]:
        """Return what a `Reading` holds, of some rows."""
        log_probs = self._network.token_log_probs(states).index_fill(1, self._banned, -torch.inf)
        best, following = log_probs.topk(1, dim=1)
        asked = log_probs.gather(1, given.unsqueeze(1)).squeeze(1)
        return following[:, 0], best[:, 0], asked, log_probs[:, SPECIAL_TOKENS.eos]

    def select(self, rows: Int64[np.ndarray, "R"]) -> None:
        """Keep these sentences only."""
        with torch.inference_mode():
            self._cache.select(torch.from_numpy(rows).to(self._network.device))


def torch_runtime(network: Network) -> Runtime:
    """Return what decoding needs of a network."""
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
