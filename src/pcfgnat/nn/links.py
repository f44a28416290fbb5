"""Scores of rules or transitions by several heads, mixed by a gate into one distribution."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcfgnat.nn.embeddings import PositionEmbedding
from pcfgnat.nn.mixture import mixed_rules


@dataclass(frozen=True)
class LinkConfig:
    """How nodes are joined. The defaults are the released code's; all switched off is the paper's formula.

    heads:     distributions that are mixed
    positions: add a learned position to the state of each node
    gate:      let the parent decide how the heads are mixed; otherwise they weigh the same
    scale:     divide scores by the root of a head's width
    """

    heads: int = 8
    positions: bool = True
    gate: bool = True
    scale: bool = True

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, got {self.heads}")


class Links(nn.Module):
    """Features of nodes in several roles (parent, left child, …), and distributions over what they score.

    Everything after the projection is float32 at least, whatever autocast says.
    """

    def __init__(self, config: LinkConfig, width: int, positions: int, roles: int) -> None:
        super().__init__()
        if width % config.heads:
            raise ValueError(f"heads must divide the width {width}, got {config.heads}")
        self.heads = config.heads
        self.positions = PositionEmbedding(positions, width) if config.positions else None
        features = 2 * width if config.positions else width
        self.project = nn.ModuleList(nn.Linear(features, width, bias=False) for _ in range(roles))
        self.gate = nn.Linear(features, config.heads) if config.gate and config.heads > 1 else None
        self.factor = math.sqrt(config.heads / width) if config.scale else 1.0

    def features(self, states: Float[Tensor, "B M D"]) -> Float[Tensor, "B M F"]:
        """Return what the nodes are known by."""
        if self.positions is None:
            return states
        positions = self.positions(states.shape[1]).to(states.dtype)
        return torch.cat([states, positions.expand(len(states), -1, -1)], -1)

    def vectors(self, role: int, features: Float[Tensor, "B M F"]) -> Float[Tensor, "B H M E"]:
        """Return the vectors of nodes in a role, by head."""
        vectors: Tensor = self.project[role](features).to(torch.promote_types(features.dtype, torch.float32))
        return vectors.view(*features.shape[:2], self.heads, -1).transpose(1, 2)

    def mixed(
        self,
        scores: Float[Tensor, "B H P K"],
        legal: Bool[Tensor, "#B P K"],
        parents: Float[Tensor, "B P F"],
    ) -> Float[Tensor, "B P K"]:
        """Normalise each head over what is legal and mix the heads; -inf where nothing is legal.

        log Σ_h gate_h softmax_h is computed without leaving log-space, and illegal entries take no part in
        it: a sum of nothing but -inf has no gradient.
        """
        legal = legal.unsqueeze(1)
        hidden = ~legal & legal.any(-1, keepdim=True)
        heads = (scores * self.factor).masked_fill(hidden, -math.inf).log_softmax(-1)
        heads = heads.masked_fill(~legal, 0.0)
        if self.heads == 1:
            return heads[:, 0].masked_fill(~legal[:, 0], -math.inf)
        if self.gate is None:
            total = heads.logsumexp(1) - math.log(self.heads)
        else:
            total = (heads + self._log_gate(parents).to(heads.dtype).unsqueeze(-1)).logsumexp(1)
        return total.masked_fill(~legal[:, 0], -math.inf)

    def mixed_rules(
        self,
        parent: Float[Tensor, "B H C E"],
        lefts: Float[Tensor, "B H C d E"],
        right: Float[Tensor, "B H C E"],
        legal: Bool[Tensor, "B C d C"],
        parents: Float[Tensor, "B C F"],
    ) -> Float[Tensor, "B C d C"]:
        """Return what `mixed` makes of the scores of all rules, without a table of all heads."""
        root = math.sqrt(self.factor)  # scores are products of two vectors
        gate = self._log_gate(parents).to(parent.dtype)
        return mixed_rules(parent * root, lefts * root, right * root, gate, legal)

    def _log_gate(self, parents: Float[Tensor, "B P F"]) -> Float[Tensor, "B H P"]:
        """Return the logs of the heads' weights."""
        if self.gate is None:
            return parents.new_full((len(parents), self.heads, parents.shape[1]), -math.log(self.heads))
        weights: Tensor = self.gate(parents)
        return weights.to(torch.promote_types(weights.dtype, torch.float32)).log_softmax(-1).transpose(1, 2)
