"""CTC (Libovický & Helcl 2018; with glancing Qian et al. 2021): slots emit tokens or blanks."""

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks.base import SPECIAL_TOKENS
from pcfgnat.networks.glancing import GlancingConfig
from pcfgnat.networks.parallel import Canvas, Memory, ParallelConfig, ParallelModel
from pcfgnat.nn import initialise
from pcfgnat.structures import CTC, Hypothesis, Padded, SpecialTokens

BLANK = SPECIAL_TOKENS.pad  # no sentence contains it


@dataclass(frozen=True)
class CTCConfig(ParallelConfig):
    """The canvas's size: `upsampling` slots for each source token. Glancing is off unless asked for."""

    glancing: GlancingConfig = field(default_factory=lambda: GlancingConfig(first=0.0, last=0.0))
    upsampling: int = 2

    def __post_init__(self) -> None:
        if self.upsampling < 1:
            raise ValueError(f"upsampling must be at least 1, got {self.upsampling}")


class Collapsing(ParallelModel):
    """p(Y|X) = Σ over what the slots may emit such that Y is left; bos and eos are not emitted."""

    strategies = ("greedy", "beam", "sample")
    unemitted = 2

    def __init__(self, config: CTCConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, config.upsampling * config.transformer.max_positions)
        self.config = config
        initialise(self, config.transformer)

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return a fixed number of slots for each source token."""
        return memory.lengths * self.config.upsampling

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> CTC:
        """Return the alignments of each sentence; the blank comes first in any vocabulary."""
        return CTC(emit, canvas.lengths, BLANK)

    def emitted(self, target: Padded) -> Padded:
        """Return what stands between bos and eos."""
        return Padded(target.ids[:, 1:], (target.lengths - 2).clamp(min=0))

    def extra_types(self) -> tuple[int, ...]:
        """Return the blank."""
        return (BLANK,)

    def restricted(
        self, canvas: Canvas, emit: Float[Tensor, "B m V"], special: SpecialTokens
    ) -> Float[Tensor, "B m V"]:
        """Let no slot emit a special token but the blank."""
        banned = [token for token in special.ids if token != BLANK]
        return emit.index_fill(2, torch.tensor(banned, device=emit.device), -torch.inf)

    def completed(self, hypothesis: Hypothesis) -> Hypothesis:
        """Add bos and eos, which no slot emits: their node is -1."""
        ids = (SPECIAL_TOKENS.bos, *hypothesis.ids, SPECIAL_TOKENS.eos)
        return replace(hypothesis, ids=ids, nodes=(-1, *hypothesis.nodes, -1))
