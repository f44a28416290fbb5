"""What all one-pass networks share: a decoder that fills a canvas, and a distribution over its nodes."""

from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcfgnat.grammar.canvas import Framing, Geometry, opposite
from pcfgnat.networks.base import Memory, Network
from pcfgnat.nn import Decoder, Embeddings, Encoder, LengthHead, TransformerConfig, waiting
from pcfgnat.structures import Padded, SequenceDistribution
from pcfgnat.structures.profiling import DECODER, profiled
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class CanvasConfig:
    """Architecture that all one-pass networks share.

    transformer: size of encoder and decoder
    copy_input:  add to each node's input a projection of the encoder state opposite to it; not in the
                 paper, but learning begins much faster
    """

    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    copy_input: bool = False


@dataclass(frozen=True)
class UpsampledConfig(CanvasConfig):
    """The canvas's size, where that follows from the source.

    upsampling: λ, nodes per source token
    """

    upsampling: int = 1

    def __post_init__(self) -> None:
        if self.upsampling < 1:
            raise ValueError(f"upsampling must be at least 1, got {self.upsampling}")

    @property
    @abstractmethod
    def geometry(self) -> Geometry:
        """How the canvas follows from the source."""


@dataclass(frozen=True)
class CanvasIds:
    """What the decoder reads: a token for each of m nodes, of which sentence b has the first `lengths[b]`."""

    ids: Int[Tensor, "B m"]
    lengths: Int[Tensor, "B"]

    @classmethod
    def blank(cls, lengths: Int[Tensor, "B"], width: int | None = None) -> "CanvasIds":
        """Return empty canvases: bos at the first node, eos at the last, blanks between.

        `width` is m, if it is known to be enough; else it is read off the lengths.
        """
        node = torch.arange(int(lengths.max()) if width is None else width, device=lengths.device)
        ids = torch.full((len(lengths), len(node)), SPECIAL_TOKENS.unk, device=lengths.device)
        ids[:, 0] = SPECIAL_TOKENS.bos
        return cls(ids.masked_fill(node == lengths.unsqueeze(1) - 1, SPECIAL_TOKENS.eos), lengths)

    @property
    def mask(self) -> Bool[Tensor, "B m"]:
        """True at the nodes that belong to a sentence."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths.unsqueeze(1)


@dataclass(frozen=True)
class Canvas:
    """The decoder's states: sentence b fills the first `lengths[b]` of m nodes."""

    states: Float[Tensor, "B m D"]
    mask: Bool[Tensor, "B m"]
    lengths: Int[Tensor, "B"]
    source_lengths: Int[Tensor, "B"]


class CanvasNetwork(Network):
    """Encoder, decoder without causal mask over a canvas of nodes, and a distribution over sentences.

    framing: which tokens of a sentence the nodes emit
    length:  predicts how long the canvas must be, where that does not follow from the source
    """

    framing: Framing

    def __init__(
        self, config: CanvasConfig, vocabulary: int, longest_canvas: int, decoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        transformer = config.transformer
        self.embeddings = Embeddings(vocabulary, transformer, longest_canvas)
        self.encoder = Encoder(transformer)
        self.decoder = Decoder(transformer, causal=False) if decoder is None else decoder
        width = transformer.width
        self.copy: nn.Linear | None = nn.Linear(width, width) if config.copy_input else None
        self.length: LengthHead | None = None

    @abstractmethod
    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return how many nodes each sentence gets; the target is known in training only."""

    @abstractmethod
    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> SequenceDistribution:
        """Return p(Y|X); `emit` holds log-probabilities of K tokens, not always of the whole vocabulary."""

    def canvas_width(self, memory: Memory, target: Padded | None) -> int | None:
        """Return m for which all canvases have room, from shapes alone; None if only the lengths tell."""
        return None

    def blank(self, memory: Memory, target: Padded | None) -> CanvasIds:
        """Return empty canvases for a batch; the target is known in training only."""
        lengths = self.canvas_lengths(memory, target)
        known = waiting.at_hand(lengths)
        return CanvasIds.blank(lengths, None if known else self.canvas_width(memory, target))

    @profiled(DECODER)
    def fill(self, memory: Memory, canvas: CanvasIds) -> Canvas:
        """Run the decoder over a canvas of blanks, of shown tokens, or of a draft."""
        mask = canvas.mask
        inputs = self.embeddings.target(canvas.ids, mask)
        if self.copy is not None:
            inputs = inputs + self.copied(memory, canvas)
        states = self.decoder(inputs, mask, memory.states, memory.mask)
        return Canvas(states, mask, canvas.lengths, memory.lengths)

    def copied(self, memory: Memory, canvas: CanvasIds) -> Float[Tensor, "B m D"]:
        """Return what a network with `copy_input` adds to each node's input."""
        assert self.copy is not None
        node = torch.arange(canvas.ids.shape[1], device=canvas.ids.device)
        place = opposite(node, memory.lengths, canvas.lengths)
        states = memory.states.gather(1, place.unsqueeze(2).expand(-1, -1, memory.states.shape[2]))
        projected: Tensor = self.copy(states)
        return projected

    def emitted(self, target: Padded) -> Padded:
        """Return what the nodes have to emit of a target."""
        if self.framing.ends:
            return target
        return Padded(target.ids[:, 1:], (target.lengths - 2).clamp(min=0))


class UpsampledNetwork(CanvasNetwork):
    """A network whose canvas has a size that follows from the source, by the geometry of its config."""

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return as many nodes as the geometry has for each source."""
        lengths: Tensor = self.config.geometry.canvas_lengths(memory.lengths)
        return lengths

    def canvas_width(self, memory: Memory, target: Padded | None) -> int:
        """Return the canvas of a source that fills its row."""
        width: int = self.config.geometry.longest_canvas(memory.states.shape[1])
        return width
