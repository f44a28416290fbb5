"""DA-Transformer (Huang et al. 2022): the decoder's states are the vertices of a directed acyclic graph."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from pcfgnat.grammar.canvas import GRAPH, Geometry
from pcfgnat.networks.canvas import Canvas, UpsampledConfig, UpsampledNetwork
from pcfgnat.nn import LinkConfig, Links, initialise
from pcfgnat.structures import DAG
from pcfgnat.structures.profiling import RULE_SCORES, profiled
from pcfgnat.structures.transforms import without_autocast


@dataclass(frozen=True)
class DAGConfig(UpsampledConfig):
    """The graph's size, and how its transitions are scored.

    upsampling:  λ, vertices per source token
    transitions: how transitions are scored
    """

    upsampling: int = 8
    transitions: LinkConfig = field(default_factory=LinkConfig)

    @property
    def geometry(self) -> Geometry:
        """How the canvas follows from the source."""
        return Geometry("graph", self.upsampling)


class DAGNetwork(UpsampledNetwork):
    """p(Y|X) = Σ over paths from the first vertex to the last."""

    framing = GRAPH
    default_strategy = "joint-viterbi"

    def __init__(self, config: DAGConfig, vocabulary: int) -> None:
        longest = config.geometry.longest_canvas(config.transformer.max_positions)
        super().__init__(config, vocabulary, longest)
        self.config = config
        self.links = Links(config.transitions, config.transformer.width, longest, roles=2)
        initialise(self, config.transformer)

    @profiled(RULE_SCORES)
    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> DAG:
        """Return the lattice of each sentence."""
        return DAG(self._transitions(canvas), emit, canvas.lengths)

    def _transitions(self, canvas: Canvas) -> Float[Tensor, "B m m"]:
        features = self.links.features(canvas.states)
        before, after = self.links.vectors(0, features), self.links.vectors(1, features)
        node = torch.arange(canvas.mask.shape[1], device=canvas.lengths.device)
        legal = (node > node.unsqueeze(1)) & canvas.mask.unsqueeze(1)
        with without_autocast(features.device):
            scores = before @ after.transpose(2, 3)
        return self.links.mixed(scores, legal, features)
