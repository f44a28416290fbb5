"""Part of an alignment (Chan et al. 2020): in training some slots are shown what they should emit."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.networks import CanvasIds, CanvasNetwork, Memory
from pcfgnat.networks.emissions import target_emissions
from pcfgnat.objectives.randomness import generator_restored, noise
from pcfgnat.structures import Padded
from pcfgnat.structures.profiling import GLANCING, profiled

COUNT, CHOICE = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class PartialAlignment:
    """Which slots are shown something, and which position of the target each slot emits, -1 for a blank."""

    shown: Bool[Tensor, "B m"]
    position: Int[Tensor, "B m"]

    def on(self, canvas: CanvasIds, target: Padded, blank: int) -> CanvasIds:
        """Return the canvas with tokens and blanks shown."""
        return CanvasIds(torch.where(self.shown, self._symbols(target, blank), canvas.ids), canvas.lengths)

    def forced(self, emit: Float[Tensor, "B m K"], local: Padded) -> Float[Tensor, "B m K"]:
        """Return scores under which only alignments with what is shown are left: shown symbols cost nothing.

        `local` is the target in terms of the K tokens, of which the first is the blank.
        """
        own = self._symbols(local, 0).unsqueeze(2)
        other = torch.arange(emit.shape[2], device=emit.device) != own
        given = torch.zeros_like(emit).masked_fill(other, -torch.inf)
        return torch.where(self.shown.unsqueeze(2), given, emit)

    def _symbols(self, target: Padded, blank: int) -> Int[Tensor, "B m"]:
        ids = target.ids.masked_fill(~target.mask, blank)
        return ids.gather(1, self.position.clamp(min=0)).masked_fill(self.position < 0, blank)


@profiled(GLANCING)
def best_alignment(
    network: CanvasNetwork, memory: Memory, blank: CanvasIds, target: Padded
) -> Int[Tensor, "B m"]:
    """Return the alignment that the network itself finds best when it is shown nothing.

    The decoder then runs again with the same numbers drawn for its dropout.
    """
    with torch.no_grad():
        with generator_restored(blank.ids.device):
            canvas = network.fill(memory, blank)
        emit, local = target_emissions(network, canvas, target)
        return network.distribution(canvas, emit).posterior(local).argmax().position


def open_slots(canvas: CanvasIds, seeds: Int[Tensor, "B"]) -> Bool[Tensor, "B m"]:
    """Choose the slots that are not shown: of m slots 1 … m, all numbers and all choices equally likely."""
    inside = canvas.mask
    count = 1 + (noise(seeds, 1, COUNT) * canvas.lengths.unsqueeze(1)).floor()
    rank = noise(seeds, inside.shape[1], CHOICE).masked_fill(~inside, torch.inf).argsort(1).argsort(1)
    return inside & (rank < count)
