"""AXE (Ghazvininejad et al. 2020): the cross-entropy of the best monotone alignment of slots and target."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from pcfgnat.networks import Network, SlotsNetwork
from pcfgnat.objectives.alternatives import Charge
from pcfgnat.objectives.base import ObjectiveError
from pcfgnat.objectives.slots import SlotObjective, SlotScores
from pcfgnat.structures.aligned import best_alignment

HUNDREDTHS = 100  # so that ⌈λ · n⌉ is exact


@dataclass(frozen=True)
class AXE(SlotObjective):
    """The cheapest of all ways in which slots emit the target in order, blanks between.

    A sentence costs this, divided by the number of its tokens, bos and eos apart. Slots may be too few: a
    token is then skipped at the expense of a slot beside it.

    skip_penalty:    δ, how often the log-probability of a skipped token counts; 1 makes skipping free
    slots_per_token: λ, slots for each token of the target, rounded up; in hundredths
    """

    skip_penalty: float = 1.0
    slots_per_token: float = 1.0

    cost_name = "aligned_loss"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.skip_penalty >= 1:
            raise ValueError(f"skip_penalty must be at least 1, got {self.skip_penalty}")
        if not 1 <= self.slots_per_token <= 8:
            raise ValueError(f"slots_per_token must be in 1 … 8, got {self.slots_per_token}")

    def check(self, network: Network) -> None:
        """Raise an error unless the network's slots may stay blank."""
        super().check(network)
        if isinstance(network, SlotsNetwork) and network.framing.blank is None:
            raise ObjectiveError("AXE trains slots with a blank: network.blank must be true, got false")

    def canvas_lengths(self, lengths: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
        """Return ⌈λ · n⌉ slots, and those of bos and eos."""
        share = round(self.slots_per_token * HUNDREDTHS)
        return ((lengths - 2) * share + HUNDREDTHS - 1) // HUNDREDTHS + 2

    def charge(self, scores: SlotScores, progress: float) -> Charge:
        """Return the cost of the best alignment, with the shares of blank slots and of skipped tokens."""
        assert scores.blanks is not None
        best = best_alignment(scores.tokens, scores.blanks, scores.slots, scores.lengths, self.skip_penalty)
        blank = (best.blanks * scores.blanks.masked_fill(best.blanks == 0, 0.0)).sum(1)
        cost = scores.tokens_cost(best.tokens, self.label_smoothing)
        cost = cost - (1 - self.label_smoothing) * blank - self.label_smoothing * scores.means_of(best.blanks)
        blanks = best.blanks.sum(1)
        skipped = scores.lengths - (scores.slots - blanks)  # every slot is blank or has a token
        figures = {
            "blanks": blanks / scores.slots.clamp(min=1),
            "skipped_tokens": skipped / scores.lengths.clamp(min=1),
        }
        return Charge(cost / scores.lengths.clamp(min=1), figures)
