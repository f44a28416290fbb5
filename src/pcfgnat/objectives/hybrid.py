"""Both heads of a hybrid network: likelihood or n-grams of the lattice, cross-entropy of the reader."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks import AutoregressiveNetwork, Batch, HybridNetwork, Memory, Network
from pcfgnat.nn import waiting
from pcfgnat.objectives.alternatives import Charge
from pcfgnat.objectives.base import Loss, ObjectiveError
from pcfgnat.objectives.canvas import mean_loss
from pcfgnat.objectives.likelihood import Likelihood
from pcfgnat.objectives.ngrams import Ngrams
from pcfgnat.objectives.smoothing import check_smoothing, smoothed_nll
from pcfgnat.structures import Padded, SequenceDistribution


@dataclass(frozen=True)
class Hybrid(Likelihood):
    """`-log P(Y|X) / n` of the drafter and `reader_weight` times the reader's cross-entropy per token.

    The mean is over sentences; those that the drafter cannot produce are left out. The source is encoded
    once. Metrics: `nll` (or `ngram_loss`) is the drafter's, `reader_nll` the reader's, without smoothing.

    reader_weight:   weight of the reader beside the drafter
    label_smoothing: ε of the reader: probability that is spread over the whole vocabulary
    n:               length of n-grams, 1, 2 or 3: the drafter is charged with minus the expected n-gram
                     precision instead, as `ngrams` is, which is for fine-tuning only; likelihood if unset
    """

    reader_weight: float = 1.0
    label_smoothing: float = 0.1
    n: int | None = None

    sums_targets = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.reader_weight > 0:
            raise ValueError(f"reader_weight must be positive, got {self.reader_weight}")
        check_smoothing(self.label_smoothing)
        if self.n is not None:
            Ngrams(n=self.n)  # raises unless there are n-grams of this length

    def charge(self, distribution: SequenceDistribution, target: Padded, lengths: Int[Tensor, "B"]) -> Charge:
        """Return what the drafter costs."""
        if self.n is None:
            return super().charge(distribution, target, lengths)
        return Ngrams(n=self.n).charge(distribution, target, lengths)

    def check(self, network: Network) -> None:
        """Raise an error unless the network has both heads."""
        if not isinstance(network, HybridNetwork):
            raise ObjectiveError(f"hybrid trains hybrid networks, got {type(network).__name__}")

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean cost of both heads."""
        assert isinstance(network, HybridNetwork)
        memory = network.encode(batch.source)
        drafted, metrics = self.charged(network.drafter, memory, batch, progress)
        smoothed, plain = self._read(network.reader, memory, batch.target)
        drafter = "nll" if self.n is None else Ngrams.cost_name
        figures = {drafter: drafted.costs, "reader_nll": plain, **drafted.figures}
        charge = Charge(drafted.costs + self.reader_weight * smoothed, figures)
        return mean_loss(charge, batch.target.lengths, None, metrics, "both")

    def _read(
        self, network: AutoregressiveNetwork, memory: Memory, target: Padded
    ) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"]]:
        """Return each sentence's mean over all tokens after bos, smoothed and not."""
        found = network.read(memory, target)
        mask, lengths = found.tokens.mask, found.tokens.lengths.clamp(min=1)
        weight = network.embeddings.tokens.weight
        costs = smoothed_nll(found.states, weight, found.label, self.label_smoothing)
        smoothed, plain = (waiting.placed(mask, tokens).sum(1) / lengths for tokens in costs)
        return smoothed, plain
