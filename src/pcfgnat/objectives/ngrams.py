"""Fuzzy alignment (Ma et al. 2023): the n-grams of a sentence and of the target match, in expectation."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks import DAGNetwork, Network, PCFGNetwork
from pcfgnat.objectives.alternatives import Charge
from pcfgnat.objectives.base import ObjectiveError
from pcfgnat.objectives.canvas import CanvasObjective
from pcfgnat.structures import Padded, SequenceDistribution
from pcfgnat.structures.ngrams import CountsNgrams, ngram_score


@dataclass(frozen=True)
class Ngrams(CanvasObjective):
    """Minus the expected n-gram precision with BLEU's brevity penalty: from -1, which is best, to 0.

    `-BP · Σ_g min(E[count(g)], count of g in the target) / E[number of n-grams]`, where
    `BP = min(1, exp(1 - |Y| / E[length]))`; bos and eos count. No target is impossible. From random weights
    it hardly learns, since a gradient reaches only what is probable already: start from likelihood.

    n: length of the n-grams, 1, 2 or 3
    """

    n: int = 2

    cost_name = "ngram_loss"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n <= 3:
            raise ValueError(f"n must be 1, 2 or 3, got {self.n}")

    def check(self, network: Network) -> None:
        """Raise an error unless the network's n-grams can be counted."""
        if not isinstance(network, DAGNetwork | PCFGNetwork):
            raise ObjectiveError(f"n-grams train pcfg and dag networks, got {type(network).__name__}")

    def costs(
        self, distribution: SequenceDistribution, target: Padded, lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B"]:
        """Return minus the score of each sentence."""
        return self.charge(distribution, target, lengths).costs

    def charge(self, distribution: SequenceDistribution, target: Padded, lengths: Int[Tensor, "B"]) -> Charge:
        """Return minus the score, with precision, brevity penalty and expected by wanted length."""
        assert isinstance(distribution, CountsNgrams)
        found = ngram_score(distribution, target, self.n)
        ratio = found.expected_length / lengths.clamp(min=1)
        figures = {"precision": found.precision, "brevity": found.brevity, "length_ratio": ratio}
        return Charge(-found.score, figures)
