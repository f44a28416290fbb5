"""Slots of a predicted length (Gu et al. 2018): every node emits one token, independently of the others."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.canvas import SAME_LENGTH, Framing
from pcfgnat.networks.base import Memory
from pcfgnat.networks.canvas import Canvas, CanvasConfig, CanvasNetwork
from pcfgnat.nn import LengthHead, initialise
from pcfgnat.structures import Independent, Padded
from pcfgnat.text.special import SPECIAL_TOKENS

BLANK = SPECIAL_TOKENS.pad  # no sentence contains it


@dataclass(frozen=True)
class SlotsConfig(CanvasConfig):
    """Architecture of slots.

    blank: slots may emit a blank, which translations leave out
    """

    blank: bool = False


class SlotsNetwork(CanvasNetwork):
    """p(Y|X) = p(n|X) Π p(y_i | X, n)."""

    framing = Framing()
    default_strategy = "greedy"

    def __init__(self, config: SlotsConfig, vocabulary: int) -> None:
        transformer = config.transformer
        super().__init__(config, vocabulary, transformer.max_positions + SAME_LENGTH)
        self.config = config
        self.framing = Framing(blank=BLANK if config.blank else None)
        self.length = LengthHead(transformer.width)
        initialise(self, transformer)

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return the target's length in training, the most probable one in translation."""
        if target is not None:
            return target.lengths.clamp(min=2)
        most = self.embeddings.target_positions.limit
        best = self.length_scores(memory).argmax(1)
        return (memory.lengths + best - SAME_LENGTH).clamp(2, most)

    def length_scores(self, memory: Memory) -> Float[Tensor, "B L"]:
        """Return the score of each class of lengths."""
        assert self.length is not None
        return self.length.scores(memory.states, memory.mask, memory.lengths)

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> Independent:
        """Return tokens independent of each other."""
        return Independent(emit, canvas.lengths)
