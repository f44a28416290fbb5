"""Label-smoothed cross-entropy of a network that writes token by token."""

from dataclasses import dataclass

from pcfgnat.networks import AutoregressiveNetwork, Batch, Network
from pcfgnat.nn import waiting
from pcfgnat.objectives.base import Counts, Loss, Objective, ObjectiveError
from pcfgnat.objectives.smoothing import check_smoothing


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Summed over all tokens after bos and divided by their number.

    With ε = `label_smoothing` a token y costs `-(1 - ε) log p(y) - ε / V · Σ_v log p(v)`. The metric `nll` is
    the same mean without smoothing. A target of fewer than 2 tokens is left out.

    label_smoothing: ε, probability that is spread over the whole vocabulary
    """

    label_smoothing: float = 0.1

    weight = "tokens"

    def __post_init__(self) -> None:
        check_smoothing(self.label_smoothing)

    def check(self, network: Network) -> None:
        """Raise an error unless the network is autoregressive."""
        if not isinstance(network, AutoregressiveNetwork):
            raise ObjectiveError(
                f"cross-entropy trains autoregressive networks, got {type(network).__name__}"
            )

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean over tokens."""
        assert isinstance(network, AutoregressiveNetwork)
        found = network.predictions(batch)
        mask, lengths, epsilon = found.read.mask, found.read.lengths, self.label_smoothing
        nll, smoothing = waiting.total(mask, found.nll), waiting.total(mask, -found.log_probs.mean(1))
        counts = Counts((lengths > 0).sum(), lengths.sum(), (lengths == 0).sum())
        tokens = counts.tokens.clamp(min=1)
        value = ((1 - epsilon) * nll + epsilon * smoothing) / tokens
        return Loss(value, counts, {"nll": nll.detach() / tokens})
