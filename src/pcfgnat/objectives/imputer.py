"""Likelihood of an alignment's open slots, given those that are shown (Imputer, Saharia et al. 2020)."""

from dataclasses import dataclass

from pcfgnat.networks import Batch, ImputerNetwork, Network
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import target_emissions, with_columns
from pcfgnat.objectives.alternatives import Charge
from pcfgnat.objectives.base import Loss, Objective, ObjectiveError
from pcfgnat.objectives.canvas import mean_loss
from pcfgnat.objectives.randomness import own_seeds
from pcfgnat.objectives.reveal.alignment import PartialAlignment, best_alignment, open_slots
from pcfgnat.structures.distribution import check_target


@dataclass(frozen=True)
class Imputer(Objective):
    """`-log Σ Π p(a_t | shown, X) / n`, where n counts bos and eos.

    The sum is over all alignments of the target that agree with what is shown, the product over open slots. A
    part of the network's own best alignment is shown; 1 … m of m slots stay open, all numbers equally likely.
    """

    weight = "sentences"

    def check(self, network: Network) -> None:
        """Raise an error unless the network reads partial alignments."""
        if not isinstance(network, ImputerNetwork):
            raise ObjectiveError(f"imputer trains networks of kind imputer, got {type(network).__name__}")

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean over sentences; those that do not fit into their slots are left out."""
        assert isinstance(network, ImputerNetwork)
        memory = network.encode(batch.source)
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        blank = network.blank(memory, None)
        target = with_columns(network.emitted(batch.target))
        position = best_alignment(network, memory, blank, target)
        shown = blank.mask & ~open_slots(blank, own_seeds(batch))
        partial = PartialAlignment(shown, position)
        canvas = network.fill(memory, partial.on(blank, target, BLANK))
        emit, local = target_emissions(network, canvas, target)
        distribution = network.distribution(canvas, partial.forced(emit, local))
        costs = -distribution.log_prob(local) / batch.target.lengths.clamp(min=1)
        share = shown.sum().double() / blank.mask.sum().clamp(min=1)
        return mean_loss(Charge(costs), batch.target.lengths, None, {"revealed": share})
