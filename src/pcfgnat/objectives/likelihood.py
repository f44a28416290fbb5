"""Likelihood: all structures of the target summed."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.objectives.canvas import CanvasObjective
from pcfgnat.structures import Padded, SequenceDistribution


@dataclass(frozen=True)
class Likelihood(CanvasObjective):
    """`-log P(Y|X) / n` of each sentence, where n counts bos and eos (paper, section 3.3).

    Of a source with several targets it is `-log Σ_r P(Y_r|X)`, divided by their mean length.
    """

    sums_targets = True

    def costs(
        self, distribution: SequenceDistribution, target: Padded, lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B"]:
        """Return the negative log-likelihood per token."""
        return -distribution.log_prob(target) / lengths.clamp(min=1)  # no NaN from what is left out
