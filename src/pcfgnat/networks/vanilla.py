"""Vanilla NAT (Gu et al. 2018): predict the length, then every token on its own."""

from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from pcfgnat.networks.glancing import GlancingConfig
from pcfgnat.networks.parallel import Canvas, Memory, ParallelConfig, ParallelModel
from pcfgnat.nn import initialise
from pcfgnat.structures import Independent, Padded

# Classes of the length predictor: the target is so much longer than the source.
LENGTH_CLASSES = 256
SAME_LENGTH = 128


@dataclass(frozen=True)
class VanillaConfig(ParallelConfig):
    """How much the length counts in the loss, beside a token's mean. Glancing is off unless asked for."""

    glancing: GlancingConfig = field(default_factory=lambda: GlancingConfig(first=0.0, last=0.0))
    length_weight: float = 0.1

    def __post_init__(self) -> None:
        if self.length_weight <= 0:
            raise ValueError(f"length_weight must be positive, got {self.length_weight}")


class Vanilla(ParallelModel):
    """p(Y|X) = p(n|X) Π p(y_i | X, n)."""

    strategies = ("greedy", "sample")

    def __init__(self, config: VanillaConfig, vocabulary: int) -> None:
        transformer = config.transformer
        super().__init__(config, vocabulary, transformer.max_positions + SAME_LENGTH)
        self.config = config
        self.length = nn.Linear(transformer.width, LENGTH_CLASSES)
        initialise(self, transformer)

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return the target's length in training, the most probable one in translation."""
        if target is not None:
            return target.lengths.clamp(min=2)
        most = self.embeddings.target_positions.limit
        return (memory.lengths + self._length_scores(memory).argmax(1) - SAME_LENGTH).clamp(2, most)

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> Independent:
        """Return tokens independent of each other."""
        return Independent(emit, canvas.lengths)

    def extra_loss(self, memory: Memory, target: Padded) -> Float[Tensor, "B"]:
        """Return the cost of the length, which the encoder's mean state predicts."""
        label = (target.lengths - memory.lengths + SAME_LENGTH).clamp(0, LENGTH_CLASSES - 1)
        cost = functional.cross_entropy(self._length_scores(memory), label, reduction="none")
        return self.config.length_weight * cost

    def _length_scores(self, memory: Memory) -> Float[Tensor, "B L"]:
        states = memory.states.masked_fill(~memory.mask.unsqueeze(2), 0.0)
        mean = states.sum(1) / memory.lengths.unsqueeze(1)
        scores: Tensor = self.length(mean)
        return scores.float()
