"""The evidence lower bound of FlowSeq (Ma et al. 2019)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks import Batch, FlowSeqNetwork, Network
from pcfgnat.nn import LengthHead, waiting
from pcfgnat.objectives.base import Counts, Loss, Objective, ObjectiveError
from pcfgnat.objectives.randomness import noise, own_seeds
from pcfgnat.objectives.smoothing import check_smoothing, smoothed_nll
from pcfgnat.structures import Padded
from pcfgnat.structures.distribution import check_target


@dataclass(frozen=True)
class FlowSeq(Objective):
    """`-log p(Y|z,X) + w (log q(z|X,Y) - log p(z|X)) - log p(n|X)` of each sentence, z drawn once from q.

    Sums over a sentence, the mean over sentences. Empty targets are left out.

    label_smoothing: ε, probability that is spread over the whole vocabulary
    reconstruction:  share of training, at its start, in which z is the mean of q and w is 0
    annealing:       share of training after that in which w rises from 0 to 1
    """

    label_smoothing: float = 0.1
    reconstruction: float = 0.0
    annealing: float = 0.1

    weight = "sentences"

    def __post_init__(self) -> None:
        check_smoothing(self.label_smoothing)
        for name in ("reconstruction", "annealing"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be in 0 … 1, got {value}")

    def check(self, network: Network) -> None:
        """Raise an error unless the network has latents."""
        if not isinstance(network, FlowSeqNetwork):
            raise ObjectiveError(f"flowseq trains networks of kind flowseq, got {type(network).__name__}")

    def divergence_weight(self, progress: float) -> float:
        """Return w."""
        behind = progress - self.reconstruction
        if behind < 0:
            return 0.0
        return min(behind / self.annealing, 1.0) if self.annealing else 1.0

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean over sentences."""
        assert isinstance(network, FlowSeqNetwork)
        memory = network.encode(batch.source)
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        filled = network.filled(network.checked(batch.target))
        mask, posterior = filled.mask, network.inferred(memory, filled)
        eta = torch.zeros_like(posterior.mean)
        if progress >= self.reconstruction:
            drawn = normal_noise(own_seeds(batch), *eta.shape[1:]).to(eta)
            eta = drawn.masked_fill(~mask.unsqueeze(2), 0.0)
        z = posterior.sample(eta)
        states = network.written(memory, z, mask)
        output = network.embeddings.tokens.weight
        labels = waiting.picked(mask, filled.ids)
        costs, nll = smoothed_nll(waiting.picked(mask, states), output, labels, self.label_smoothing)
        divergence = posterior.log_prob(eta, filled.lengths)
        divergence = divergence - network.prior.log_prob(z, network.given(memory, mask))
        lengths = LengthHead.cost(network.length_scores(memory), memory.lengths, filled.lengths)
        weight = self.divergence_weight(progress)
        total = waiting.placed(mask, costs).sum(1) + weight * divergence + lengths
        return _mean(
            total,
            batch.target,
            {
                "reconstruction": waiting.placed(mask, nll.detach()).sum(1),
                "divergence": divergence.detach(),
                "length_loss": lengths.detach(),
            },
        )


def normal_noise(seeds: Int[Tensor, "B"], positions: int, width: int) -> Float[Tensor, "B n d"]:
    """Draw standard normal numbers by sentence, position and feature."""
    chance = noise(seeds, positions * width, stream=1) + 2.0**-54  # never 0
    return math.sqrt(2.0) * torch.erfinv(2.0 * chance - 1.0).view(len(seeds), positions, width)


def _mean(total: Float[Tensor, "B"], target: Padded, parts: dict[str, Float[Tensor, "B"]]) -> Loss:
    counted = target.lengths > 2
    sentences = counted.sum()
    sums = {name: torch.where(counted, part.detach(), 0.0).sum() for name, part in parts.items()}
    measured = {name: number.double() / sentences.clamp(min=1) for name, number in sums.items()}
    value = torch.where(counted, total, 0.0).sum() / sentences.clamp(min=1)
    counts = Counts(sentences, torch.where(counted, target.lengths, 0).sum(), (~counted).sum())
    return Loss(value, counts, measured)
