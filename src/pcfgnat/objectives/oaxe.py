"""OAXE (Du et al. 2021): the cross-entropy of the best assignment of tokens to slots, in whatever order."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pcfgnat.objectives.alternatives import Charge
from pcfgnat.objectives.slots import SlotObjective, SlotScores
from pcfgnat.structures.distribution import moved
from pcfgnat.structures.emissions import as_arrays

HIGHEST_COST = 1e4  # in the matching alone, which cannot add up infinities


@dataclass(frozen=True)
class OAXE(SlotObjective):
    """The cheapest assignment of the target's tokens to the slots between bos and eos.

    A sentence costs the pairs whose probability exceeds `least_probability`, divided by the number of all its
    tokens, bos and eos apart. From random weights nothing is that probable: start from a trained network, or
    mix with cross-entropy for a while.

    least_probability: π; pairs that are less probable are left out after matching
    cross_entropy:     share of training in which ordinary cross-entropy is mixed in, from all of the loss to
                       none of it, linearly
    """

    least_probability: float = 0.15
    cross_entropy: float = 0.0

    cost_name = "aligned_loss"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("least_probability", "cross_entropy"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be in 0 … 1, got {value}")

    def mixture(self, progress: float) -> float:
        """Return the share of cross-entropy at some time of training."""
        return max(0.0, 1 - progress / self.cross_entropy) if self.cross_entropy else 0.0

    def charge(self, scores: SlotScores, progress: float) -> Charge:
        """Return the cost of the kept pairs, with the share of those that were left out."""
        best = best_assignment(scores)
        probable = scores.tokens.detach().exp() > self.least_probability
        kept = best * probable
        costs = scores.tokens_cost(kept, self.label_smoothing)
        share = self.mixture(progress)
        if share:
            ordered = torch.eye(*best.shape[1:], dtype=best.dtype, device=best.device) * best.any(2, True)
            costs = share * scores.tokens_cost(ordered, self.label_smoothing) + (1 - share) * costs
        left_out = 1 - kept.sum((1, 2)) / best.sum((1, 2)).clamp(min=1)
        return Charge(costs / scores.lengths.clamp(min=1), {"left_out": left_out})


def best_assignment(scores: SlotScores) -> Float[Tensor, "B m n"]:
    """Return 1 where a slot answers for a token: each slot for one, at the least total cost.

    Sentence by sentence on the CPU, so a GPU has to be waited for, once a batch.
    """
    from scipy.optimize import linear_sum_assignment  # of the extra `train`

    costs, sizes = as_arrays((-scores.tokens.double()).clamp(max=HIGHEST_COST), scores.lengths)
    chosen = np.zeros(costs.shape, dtype=np.float64)
    for index, size in enumerate(sizes.tolist()):
        chosen[index][linear_sum_assignment(costs[index, :size, :size])] = 1.0
    return moved(torch.from_numpy(chosen).to(scores.tokens.dtype), scores.tokens.device)
