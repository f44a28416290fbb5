"""Canvases whose number of nodes is predicted; every node emits one token, independently of the others."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from pcfgnat.grammar.canvas import SAME_LENGTH, Framing
from pcfgnat.networks.base import Memory
from pcfgnat.networks.canvas import Canvas, CanvasConfig, CanvasNetwork
from pcfgnat.nn import LengthHead
from pcfgnat.structures import Independent, Padded


class PredictedLengthNetwork(CanvasNetwork):
    """p(Y|X) = p(n|X) Π p(y_i | X, n)."""

    framing = Framing()

    def __init__(self, config: CanvasConfig, vocabulary: int, decoder: nn.Module | None = None) -> None:
        transformer = config.transformer
        super().__init__(config, vocabulary, transformer.max_positions + SAME_LENGTH, decoder)
        self.config = config
        self.length = LengthHead(transformer.width)

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return the target's length in training, the most probable one in translation."""
        if target is not None:
            return target.lengths.clamp(min=2)
        most = self.embeddings.target_positions.limit
        best = self.length_scores(memory).argmax(1)
        return (memory.lengths + best - SAME_LENGTH).clamp(2, most)

    def canvas_width(self, memory: Memory, target: Padded | None) -> int | None:
        """Return the width of the targets; what is predicted must be read."""
        return None if target is None else max(target.ids.shape[1], 2)

    def length_scores(self, memory: Memory) -> Float[Tensor, "B L"]:
        """Return the score of each class of lengths."""
        assert self.length is not None
        return self.length.scores(memory.states, memory.mask, memory.lengths)

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> Independent:
        """Return tokens independent of each other."""
        return Independent(emit, canvas.lengths)
