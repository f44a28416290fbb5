"""What objectives share that decide themselves which slot answers for which token of the target."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks import Batch, Canvas, CanvasIds, Memory, Network, SlotsNetwork
from pcfgnat.networks.emissions import target_emissions, with_columns
from pcfgnat.nn import waiting
from pcfgnat.objectives.alternatives import Charge
from pcfgnat.objectives.base import Loss, Objective, ObjectiveError
from pcfgnat.objectives.canvas import length_costs, mean_loss
from pcfgnat.objectives.smoothing import check_smoothing
from pcfgnat.structures import Padded
from pcfgnat.structures.distribution import check_target, gather_tokens
from pcfgnat.structures.transforms import without_autocast


@dataclass(frozen=True)
class SlotScores:
    """Log-probabilities of the slots between bos and eos: m of them, for targets of n tokens.

    tokens: of token i of the target at slot j
    blanks: of the blank; none if the network has no blank
    means:  over the whole vocabulary, for label smoothing
    slots, lengths: how many of m and n a sentence has; the rest is padding
    """

    tokens: Float[Tensor, "B m n"]
    blanks: Float[Tensor, "B m"] | None
    means: Float[Tensor, "B m"]
    slots: Int[Tensor, "B"]
    lengths: Int[Tensor, "B"]

    def tokens_cost(self, weights: Float[Tensor, "B m n"], smoothing: float) -> Float[Tensor, "B"]:
        """Return the label-smoothed cost of the tokens, each as often as its weight."""
        tokens = torch.where(weights > 0, self.tokens, 0.0)  # nothing of padding or of what is impossible
        plain = (weights * tokens).sum((1, 2))
        return -(1 - smoothing) * plain - smoothing * self.means_of(weights.sum(2))

    def means_of(self, weights: Float[Tensor, "B m"]) -> Float[Tensor, "B"]:
        """Return the sum of the means, each as often as its weight."""
        return (weights * torch.where(weights > 0, self.means, 0.0)).sum(1)


@dataclass(frozen=True)
class SlotObjective(Objective):
    """The mean over sentences of what each costs, on a canvas that shows nothing between bos and eos.

    The slots of bos and eos are fixed in decoding, and cost nothing here: what a masked model begins with,
    which was never trained to emit them, is fine-tuned on its words alone.

    label_smoothing: ε, probability that is spread over the whole vocabulary
    length_weight:   weight of the length beside the mean of the tokens
    """

    label_smoothing: float = 0.1
    length_weight: float = 0.1

    weight = "sentences"
    cost_name: ClassVar[str]

    def __post_init__(self) -> None:
        check_smoothing(self.label_smoothing)
        if not self.length_weight > 0:
            raise ValueError(f"length_weight must be positive, got {self.length_weight}")

    @abstractmethod
    def charge(self, scores: SlotScores, progress: float) -> Charge:
        """Return what each sentence costs, divided by the number of its tokens between bos and eos."""

    def check(self, network: Network) -> None:
        """Raise an error unless the network has slots of a predicted number."""
        if not isinstance(network, SlotsNetwork):
            raise ObjectiveError(f"{type(self).__name__} trains slots networks, got {type(network).__name__}")

    def canvas_lengths(self, lengths: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
        """Return the number of slots for targets of these lengths, bos and eos included on both sides."""
        return lengths

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean cost; the length that is learned is that of the canvas."""
        assert isinstance(network, SlotsNetwork)
        memory = network.encode(batch.source)
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        sizes = self.canvas_lengths(batch.target.lengths.clamp(min=2))
        target = with_columns(batch.target)
        scores = _scores(network, memory, CanvasIds.blank(sizes, self._width(target)), target)
        extra = length_costs(network, memory, sizes, self.length_weight)
        return mean_loss(self.charge(scores, progress), batch.target.lengths, extra, {}, self.cost_name)

    def _width(self, target: Padded) -> int | None:
        """Return slots for which targets that fill their row have room; None if the lengths can be read."""
        if waiting.at_hand(target.lengths):
            return None
        return int(self.canvas_lengths(torch.tensor([max(target.ids.shape[1], 2)])))


def _scores(network: SlotsNetwork, memory: Memory, blank: CanvasIds, target: Padded) -> SlotScores:
    canvas = network.fill(memory, blank)
    emit, local = target_emissions(network, canvas, target)
    tokens = gather_tokens(emit, local)  # [B, M, N]
    means = _means(network, canvas, emit, target)
    return SlotScores(
        tokens=tokens[:, 1:, 1:],
        blanks=None if network.framing.blank is None else emit[:, 1:, 0],  # the blank comes first
        means=means[:, 1:],
        slots=canvas.lengths - 2,
        lengths=(target.lengths - 2).clamp(min=0),
    )


def _means(
    network: SlotsNetwork, canvas: Canvas, emit: Float[Tensor, "B M K"], target: Padded
) -> Float[Tensor, "B M"]:
    """Return the mean log-probability of all tokens at each slot, without those of all tokens.

    With scores s·w_v it is `s·w̄ - log Z`, and `log Z = s·w_v - log p(v)` of any token v that is known.
    """
    weight = network.embeddings.tokens.weight
    first = target.ids[:, 0].masked_fill(target.lengths < 1, 0)
    known = first if network.framing.blank is None else torch.full_like(first, network.framing.blank)
    with without_autocast(emit.device):
        difference = weight.mean(0) - weight[known]  # [B, D]
        states = canvas.states.to(weight.dtype)
        return emit[:, :, 0] + torch.einsum("bmd,bd->bm", states, difference).to(emit.dtype)
