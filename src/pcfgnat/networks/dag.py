"""DA-Transformer (Huang et al. 2022): the decoder's states are the vertices of a directed acyclic graph."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.networks.parallel import Canvas, Memory, ParallelConfig, ParallelModel, top_tokens
from pcfgnat.nn import LinkConfig, Links, initialise
from pcfgnat.structures import DAG, Padded, SequenceDistribution


@dataclass(frozen=True)
class DAGConfig(ParallelConfig):
    """The graph's size, and how its transitions are scored.

    upsampling: λ, vertices for each source token
    """

    upsampling: int = 8
    transitions: LinkConfig = field(default_factory=LinkConfig)

    def __post_init__(self) -> None:
        if self.upsampling < 1:
            raise ValueError(f"upsampling must be at least 1, got {self.upsampling}")


class DirectedAcyclic(ParallelModel):
    """p(Y|X) = Σ over paths from the first vertex to the last."""

    strategies = ("joint-viterbi", "viterbi", "lookahead", "greedy", "sample")

    def __init__(self, config: DAGConfig, vocabulary: int) -> None:
        longest = max(config.upsampling * config.transformer.max_positions, 2)
        super().__init__(config, vocabulary, longest)
        self.config = config
        self.links = Links(config.transitions, config.transformer.width, longest, roles=2)
        initialise(self, config.transformer)

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return λ · Lx vertices."""
        return (memory.lengths * self.config.upsampling).clamp(min=2)

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> DAG:
        """Return the lattice of each sentence."""
        features = self.links.features(canvas.states)
        before, after = self.links.vectors(0, features), self.links.vectors(1, features)
        node = torch.arange(canvas.mask.shape[1], device=canvas.lengths.device)
        legal = (node > node.unsqueeze(1)) & canvas.mask.unsqueeze(1)
        transitions = self.links.mixed(before @ after.transpose(2, 3), legal, features)
        return DAG(transitions, emit, canvas.lengths)

    def lattice(self, distribution: SequenceDistribution, top: int) -> LatticeScores:
        """Return the transitions and best tokens of the first sentence's graph."""
        assert isinstance(distribution, DAG)
        chain = distribution.transitions[0].unsqueeze(1).cpu().numpy()
        tokens = top_tokens(distribution.emit[0], top)
        return LatticeScores("dag", 0, *tokens, chain, chain[:, 0, :0])
