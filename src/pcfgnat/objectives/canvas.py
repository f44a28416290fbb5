"""What all objectives of one-pass networks share: show something, fill the canvas, charge each sentence."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks import Batch, CanvasNetwork, Memory, Network
from pcfgnat.networks.emissions import Shortlist, target_emissions, with_columns
from pcfgnat.nn import LengthHead
from pcfgnat.objectives.alternatives import Charge, summed
from pcfgnat.objectives.base import Counts, Loss, Objective, ObjectiveError
from pcfgnat.objectives.randomness import noise, own_seeds
from pcfgnat.objectives.reveal.glancing import Glancing
from pcfgnat.structures import Padded, SequenceDistribution
from pcfgnat.structures.distribution import check_target

COMPETITORS = 101  # the stream of random numbers that chooses them


@dataclass(frozen=True)
class CanvasObjective(Objective):
    """The mean over sentences of what each costs.

    glancing:      which tokens of the target are shown
    length_weight: weight of the length beside the mean of the tokens, where the network predicts one
    competitors:   tokens that compete with the batch's own in a training step: half of them the first ids,
                   half drawn anew each time; saves most of the output layer's work on a CPU; all if unset
    """

    glancing: Glancing = field(default_factory=Glancing)
    length_weight: float = 0.1
    competitors: int | None = None

    weight = "sentences"
    cost_name: ClassVar[str] = "nll"  # the metric that is the mean of the costs

    def __post_init__(self) -> None:
        if not self.length_weight > 0:
            raise ValueError(f"length_weight must be positive, got {self.length_weight}")
        if self.competitors is not None and self.competitors < 0:
            raise ValueError(f"competitors must be at least 0, got {self.competitors}")

    @abstractmethod
    def costs(
        self, distribution: SequenceDistribution, target: Padded, lengths: Int[Tensor, "B"]
    ) -> Float[Tensor, "B"]:
        """Return what each sentence costs, +inf where the network cannot produce the target.

        `target` is what the nodes must emit, in the distribution's own ids; `lengths` counts bos and eos.
        """

    def charge(self, distribution: SequenceDistribution, target: Padded, lengths: Int[Tensor, "B"]) -> Charge:
        """Return the costs, with figures for those objectives that have any."""
        return Charge(self.costs(distribution, target, lengths))

    def check(self, network: Network) -> None:
        """Raise an error unless the network fills a canvas."""
        if not isinstance(network, CanvasNetwork):
            raise ObjectiveError(
                f"{type(self).__name__} trains networks that fill a canvas, got {type(network).__name__}"
            )

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean cost; sentences that cost +inf are left out."""
        assert isinstance(network, CanvasNetwork)
        memory = network.encode(batch.source)
        charge, metrics = self.charged(network, memory, batch, progress)
        lengths = batch.target.lengths
        extra = length_costs(network, memory, lengths, self.length_weight)
        if batch.groups is not None:
            charge, lengths, extra = summed(charge, lengths, extra, batch.groups, batch.num_sources)
        return mean_loss(charge, lengths, extra, metrics, self.cost_name)

    def charged(
        self, network: CanvasNetwork, memory: Memory, batch: Batch, progress: float
    ) -> tuple[Charge, dict[str, Float[Tensor, ""]]]:
        """Return what each sentence of an encoded batch costs, and figures of what was shown."""
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        canvas_ids = network.blank(memory, batch.target)
        target = with_columns(network.emitted(batch.target))
        shown, metrics = None, dict[str, Tensor]()
        if network.training and self.glancing.enabled:
            emitted = Batch(batch.source, target, batch.seeds)
            shown, metrics = self.glancing.revealed(network, memory, canvas_ids, emitted, progress)
            canvas_ids = shown.on(canvas_ids)
        canvas = network.fill(memory, canvas_ids)
        emit, local = target_emissions(network, canvas, target, self._drawn(network, batch))
        if shown is not None:
            emit = self.glancing.forced(emit, local, shown)
        return self.charge(network.distribution(canvas, emit), local, batch.target.lengths), metrics

    def _drawn(self, network: CanvasNetwork, batch: Batch) -> Shortlist | None:
        """Return the tokens that compete in this step; the first sentence's seed chooses them."""
        if self.competitors is None or not network.training:
            return None
        chance = noise(own_seeds(batch)[:1], network.vocabulary, COMPETITORS)[0]
        return Shortlist.drawn(self.competitors, chance)


def length_costs(
    network: CanvasNetwork, memory: Memory, lengths: Int[Tensor, "B"], weight: float
) -> Float[Tensor, "B"] | None:
    """Return what these lengths of the canvas cost; none if the network predicts no length."""
    if network.length is None:
        return None
    scores = network.length.scores(memory.states, memory.mask, memory.lengths)
    return weight * LengthHead.cost(scores, memory.lengths, lengths)


def mean_loss(
    charge: Charge,
    lengths: Int[Tensor, "B"],
    extra: Float[Tensor, "B"] | None,
    metrics: dict[str, Float[Tensor, ""]],
    cost_name: str = "nll",
) -> Loss:
    """Return the mean over sentences that cost less than +inf, and their mean figures beside `metrics`."""
    costs = charge.costs
    feasible = (costs != torch.inf) & (lengths >= 2)
    sentences = feasible.sum()
    figures = {cost_name: costs, **charge.figures}
    if extra is not None:
        figures["length_loss"] = extra
        costs = costs + extra
    totals = {name: torch.where(feasible, values.detach(), 0.0).sum() for name, values in figures.items()}
    means = {name: total.double() / sentences.clamp(min=1) for name, total in totals.items()}
    value = torch.where(feasible, costs, 0.0).sum() / sentences.clamp(min=1)
    counts = Counts(sentences, torch.where(feasible, lengths, 0).sum(), (~feasible).sum())
    return Loss(value, counts, {**metrics, **means})
