"""Glancing (Qian et al. 2021): in training some nodes are shown the token that they should emit."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.networks import Batch, Canvas, CanvasIds, CanvasNetwork, Memory
from pcfgnat.networks.emissions import Shortlist, target_emissions
from pcfgnat.nn import best_types, waiting
from pcfgnat.objectives.randomness import generator_restored, noise
from pcfgnat.structures import Padded
from pcfgnat.structures.profiling import GLANCING, profiled


@dataclass(frozen=True)
class Revealed:
    """What nodes are shown: which of them and, for those, position and token of the target."""

    mask: Bool[Tensor, "B m"]
    position: Int[Tensor, "B m"]
    token: Int[Tensor, "B m"]

    def on(self, canvas: CanvasIds) -> CanvasIds:
        """Return the canvas with the tokens shown."""
        return CanvasIds(torch.where(self.mask, self.token, canvas.ids), canvas.lengths)


@dataclass(frozen=True)
class Glancing:
    """How much is shown: the share τ of what the network does not know yet, from `first` to `last`.

    first:      τ at the start of training; no glancing if first and last are 0
    last:       τ at the end of training
    force_emit: a node that was shown a token can emit no other
    shortlist:  look for the best structure among the batch's own tokens and this number of the first ids,
                frequent ones in learned vocabularies: saves most of the output layer's work in that pass; all
                tokens if unset
    """

    first: float = 0.0
    last: float = 0.0
    force_emit: bool = False
    shortlist: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be in 0 … 1, got {value}")
        if self.shortlist is not None and self.shortlist < 0:
            raise ValueError(f"shortlist must be at least 0, got {self.shortlist}")

    @property
    def enabled(self) -> bool:
        """Whether anything is shown at all."""
        return self.first > 0 or self.last > 0

    def ratio(self, progress: float) -> float:
        """Return τ, which changes linearly through training."""
        return self.first + (self.last - self.first) * min(max(progress, 0.0), 1.0)

    @profiled(GLANCING)
    def revealed(
        self, network: CanvasNetwork, memory: Memory, blank: CanvasIds, batch: Batch, progress: float
    ) -> tuple[Revealed, dict[str, Float[Tensor, ""]]]:
        """Look where the network would put what it must emit by itself, and choose what to show.

        The decoder then runs again with the same numbers drawn for its dropout.
        """
        with torch.no_grad():
            target, (sentences, nodes) = batch.target, blank.ids.shape
            if batch.seeds is None:
                chance = torch.rand(sentences, nodes, device=blank.ids.device)
            else:
                chance = noise(batch.seeds, nodes)
            with generator_restored(blank.ids.device):
                canvas = network.fill(memory, blank)
            emit, local = target_emissions(
                network, canvas, target, self._shortlist(network, blank.ids.device)
            )
            position = network.distribution(canvas, emit).posterior(local).argmax().position
            aligned = position >= 0
            most = min(nodes, target.ids.shape[1]) if network.framing.blank is None else nodes
            predicted = predictions(canvas, aligned, network.embeddings.tokens.weight, most)
            shown = reveal(position, predicted, target, self.ratio(progress), chance)
            right = aligned & (predicted == shown.token)
            tokens = aligned.sum().clamp(min=1)
            shares = {"glancing_accuracy": right, "revealed": shown.mask}
            return shown, {name: mask.sum().double() / tokens for name, mask in shares.items()}

    def _shortlist(self, network: CanvasNetwork, device: torch.device) -> Shortlist | None:
        return None if self.shortlist is None else Shortlist.first(self.shortlist, network.vocabulary, device)

    def forced(self, emit: Float[Tensor, "B m K"], local: Padded, shown: Revealed) -> Float[Tensor, "B m K"]:
        """Return the emissions; with `force_emit`, nodes that were shown a token emit nothing else."""
        if not self.force_emit:
            return emit
        own = local.ids.gather(1, shown.position).unsqueeze(2)
        other = torch.arange(emit.shape[2], device=emit.device) != own
        return emit.masked_fill(other & shown.mask.unsqueeze(2), -torch.inf)


def predictions(
    canvas: Canvas, wanted: Bool[Tensor, "B m"], weight: Float[Tensor, "V D"], most: int
) -> Int[Tensor, "B m"]:
    """Return the best token of the nodes that are wanted, -1 for others.

    `most` bounds how many are wanted of a sentence: a device alone knows their number, and looks at so many.
    """
    found = torch.full(wanted.shape, -1, dtype=torch.int64, device=wanted.device)
    if waiting.at_hand(wanted):
        found[wanted] = best_types(canvas.states[wanted], weight)
        return found
    order = wanted.int().argsort(dim=1, descending=True, stable=True)[:, :most]  # those wanted come first
    states = canvas.states.gather(1, order.unsqueeze(2).expand(-1, -1, canvas.states.shape[2]))
    best = best_types(states.flatten(0, 1), weight).view(order.shape)
    return found.scatter(1, order, best).masked_fill(~wanted, -1)


def reveal(
    position: Int[Tensor, "B m"],
    predicted: Int[Tensor, "B m"],
    target: Padded,
    ratio: float,
    noise: Float[Tensor, "B m"],
) -> Revealed:
    """Choose nodes of the best structure to be shown their tokens.

    `position` is the target position that a node emits there, -1 for none, and `predicted` what it would
    emit. Of n nodes that emit something, `correct` would emit the right token; `round(τ · (n - correct))` are
    shown theirs, those with the least `noise`.
    """
    aligned = position >= 0
    known = position.clamp(min=0)
    token = target.ids.masked_fill(~target.mask, 0).gather(1, known)
    correct = (aligned & (predicted == token)).sum(1)
    wanted = (ratio * (aligned.sum(1) - correct)).round()
    rank = noise.masked_fill(~aligned, torch.inf).argsort(1).argsort(1)
    return Revealed(aligned & (rank < wanted.unsqueeze(1)), known, token)
