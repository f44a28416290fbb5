"""Masked language models: tokens of the target are predicted from others, or corrected.

CMLM (Ghazvininejad et al. 2019), SMART (Ghazvininejad et al. 2020) and CMLMC (Huang et al. 2022) differ in
what the canvas shows and in which positions are charged.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pcfgnat.networks import Batch, Canvas, CanvasIds, CanvasNetwork, Memory, Network
from pcfgnat.nn import LengthHead, waiting
from pcfgnat.objectives.base import Counts, Loss, Objective, ObjectiveError
from pcfgnat.objectives.randomness import noise, own_seeds
from pcfgnat.objectives.reveal.mask import Gold, UniformMask, random_subset
from pcfgnat.objectives.reveal.own_guesses import own_guesses
from pcfgnat.objectives.smoothing import check_smoothing, smoothed_nll
from pcfgnat.structures.distribution import check_target

FIRST_MASK, SECOND_MASK, REPLACED = (1, 2), (3, 4), 5  # streams of random numbers


@dataclass(frozen=True)
class Exercise:
    """A canvas to fill, and the positions at which the target's token is asked for."""

    canvas: CanvasIds
    charged: Bool[Tensor, "B m"]


@dataclass(frozen=True)
class MaskedObjective(Objective):
    """Label-smoothed cross-entropy at some positions, and the length.

    A target without a word between bos and eos is left out. The metric `nll` is the mean without smoothing.

    label_smoothing: ε, probability that is spread over the whole vocabulary
    length_weight:   weight of the length's cross-entropy, a mean in which sentences count by their
                     charged tokens: so the way a step is split into batches changes nothing
    """

    label_smoothing: float = 0.1
    length_weight: float = 0.1

    weight = "tokens"

    def __post_init__(self) -> None:
        check_smoothing(self.label_smoothing)
        if not self.length_weight > 0:
            raise ValueError(f"length_weight must be positive, got {self.length_weight}")

    @abstractmethod
    def exercises(self, network: CanvasNetwork, memory: Memory, batch: Batch, gold: Gold) -> list[Exercise]:
        """Return what the network has to do; the tokens of a loss are those that the first one charges."""

    def check(self, network: Network) -> None:
        """Raise an error unless the network has a slot for each token, and predicts how many there are."""
        if not isinstance(network, CanvasNetwork) or network.length is None:
            raise ObjectiveError(
                f"{type(self).__name__} trains networks that predict a length, got {type(network).__name__}"
            )

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean over all charged tokens; of several exercises the mean of those that charge any."""
        assert isinstance(network, CanvasNetwork)
        memory = network.encode(batch.source)
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        gold = Gold.of(network.checked(batch.target), network.canvas_lengths(memory, batch.target))
        given = self.exercises(network, memory, batch, gold)
        found = [self._costs(network, memory, exercise, gold) for exercise in given]
        charged = torch.stack([exercise.charged.sum() for exercise in given])
        answered, divisors = (charged > 0).sum().clamp(min=1), charged.clamp(min=1)
        costs, nlls = (torch.stack(parts) for parts in zip(*found, strict=True))
        per_sentence = given[0].charged.sum(1)
        counts = Counts((per_sentence > 0).sum(), per_sentence.sum(), (per_sentence == 0).sum())
        length = (per_sentence * self._length_costs(network, memory, batch)).sum()
        length = length / counts.tokens.clamp(min=1)
        metrics = dict(zip(("nll", "correction_nll"), nlls / divisors, strict=False))
        metrics["length_loss"] = self.length_weight * length.detach().double()
        value = (costs / (divisors * answered)).sum() + self.length_weight * length
        return Loss(value, counts, metrics)

    def filled(self, network: CanvasNetwork, memory: Memory, exercise: Exercise) -> Canvas:
        """Run the decoder over the canvas of an exercise."""
        return network.fill(memory, exercise.canvas)

    def _costs(
        self, network: CanvasNetwork, memory: Memory, exercise: Exercise, gold: Gold
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Return what the charged positions cost together and, without gradient, without smoothing."""
        canvas, weight = self.filled(network, memory, exercise), network.embeddings.tokens.weight
        states, tokens = (waiting.picked(exercise.charged, part) for part in (canvas.states, gold.ids))
        costs, nll = smoothed_nll(states, weight, tokens, self.label_smoothing)
        return waiting.total(exercise.charged, costs), waiting.total(exercise.charged, nll.detach())

    def _length_costs(self, network: CanvasNetwork, memory: Memory, batch: Batch) -> Float[Tensor, "B"]:
        assert network.length is not None
        scores = network.length.scores(memory.states, memory.mask, memory.lengths)
        return LengthHead.cost(scores, memory.lengths, batch.target.lengths)


@dataclass(frozen=True)
class Masked(MaskedObjective):
    """CMLM: k tokens are hidden, k uniform on 1 … n, and predicted from the others."""

    def exercises(self, network: CanvasNetwork, memory: Memory, batch: Batch, gold: Gold) -> list[Exercise]:
        """Charge what is hidden."""
        hidden = UniformMask(FIRST_MASK).hidden(batch, gold)
        return [Exercise(gold.shown(gold.ids, hidden), hidden)]


@dataclass(frozen=True)
class Smart(MaskedObjective):
    """SMART: the network completes a masked target, its own tokens are masked again, and all are charged.

    least_masked: of n tokens, at least 1 + ⌊least_masked · n⌋ are hidden from the first pass
    most_masked:  and less than 1 + most_masked · n
    """

    least_masked: float = 0.0
    most_masked: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.least_masked <= self.most_masked <= 1:
            found = f"{self.least_masked} and {self.most_masked}"
            raise ValueError(f"least_masked and most_masked must be in 0 … 1, in this order, got {found}")

    def exercises(self, network: CanvasNetwork, memory: Memory, batch: Batch, gold: Gold) -> list[Exercise]:
        """Charge all tokens, of which some are hidden and the others are the network's own guesses."""
        first = UniformMask(FIRST_MASK, self.least_masked, self.most_masked).hidden(batch, gold)
        guessed = own_guesses(network, memory, gold.shown(gold.ids, first))
        draft = torch.where(gold.inner, guessed, gold.ids)
        second = UniformMask(SECOND_MASK).hidden(batch, gold)
        return [Exercise(gold.shown(draft, second), gold.inner)]


@dataclass(frozen=True)
class Corrected(MaskedObjective):
    """CMLMC: tokens are predicted as in CMLM, and in another pass wrong ones among the shown are corrected.

    Both means count the same; they are those of a batch, or of a process's share of it.

    replaced: share of the shown tokens that are replaced by what the network guesses from nothing
    """

    replaced: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.replaced <= 1:
            raise ValueError(f"replaced must be more than 0 and at most 1, got {self.replaced}")

    def exercises(self, network: CanvasNetwork, memory: Memory, batch: Batch, gold: Gold) -> list[Exercise]:
        """Charge what is hidden and, in a second exercise, what is replaced."""
        guessed = own_guesses(network, memory, gold.shown(gold.ids, gold.inner))
        hidden = UniformMask(FIRST_MASK).hidden(batch, gold)
        revealed = gold.inner & ~hidden
        chance = noise(own_seeds(batch), gold.inner.shape[1], REPLACED)
        replaced = random_subset(chance, revealed, (self.replaced * revealed.sum(1)).floor())
        wrong = torch.where(replaced, guessed, gold.ids)
        predicted = Exercise(gold.shown(gold.ids, hidden), hidden)
        return [predicted, Exercise(gold.shown(wrong, hidden), replaced)]
