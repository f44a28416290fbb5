"""DisCo (Kasai et al. 2020): every token is predicted from a random set of the others."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcfgnat.networks import Batch, Canvas, CanvasNetwork, DiscoNetwork, Memory, Network
from pcfgnat.objectives.base import ObjectiveError
from pcfgnat.objectives.masked import Exercise, MaskedObjective
from pcfgnat.objectives.randomness import noise, own_seeds
from pcfgnat.objectives.reveal.mask import Gold

COUNT, NODE = 1, 2  # streams of random numbers


@dataclass(frozen=True)
class ExerciseInSets(Exercise):
    """A canvas of which each position sees a set of others: `visible[b, i, j]` is whether i sees j."""

    visible: Bool[Tensor, "B m m"]


@dataclass(frozen=True)
class Disco(MaskedObjective):
    """All n tokens are predicted, each from 0 … n - 1 of the others.

    All numbers and all sets are equally likely, and independent of those of the other tokens; bos and eos are
    always seen.
    """

    def check(self, network: Network) -> None:
        """Raise an error unless every node of the network sees a set of tokens of its own."""
        if not isinstance(network, DiscoNetwork):
            raise ObjectiveError(f"disco trains networks of kind disco, got {type(network).__name__}")

    def exercises(self, network: CanvasNetwork, memory: Memory, batch: Batch, gold: Gold) -> list[Exercise]:
        """Charge all tokens."""
        nothing = torch.zeros_like(gold.inner)
        sets = random_sets(gold.inner, own_seeds(batch))
        return [ExerciseInSets(gold.shown(gold.ids, nothing), gold.inner, sets)]

    def filled(self, network: CanvasNetwork, memory: Memory, exercise: Exercise) -> Canvas:
        """Run the decoder, each node seeing its set."""
        assert isinstance(network, DiscoNetwork)
        assert isinstance(exercise, ExerciseInSets)
        return network.fill_visible(memory, exercise.canvas, exercise.visible)


def random_sets(inner: Bool[Tensor, "B m"], seeds: Int[Tensor, "B"]) -> Bool[Tensor, "B m m"]:
    """Draw the inner nodes that each inner node sees, by sentence and node."""
    sentences, nodes = inner.shape
    count = (noise(seeds, nodes, COUNT) * inner.sum(1, keepdim=True)).floor()
    of_nodes = (noise(seeds, nodes, NODE) * 2**53).long()  # seeds that do not depend on the canvas' width
    chance = noise(of_nodes.flatten(), nodes).view(sentences, nodes, nodes)
    others = inner.unsqueeze(1) & ~torch.eye(nodes, dtype=torch.bool, device=inner.device)
    rank = chance.masked_fill(~others, torch.inf).argsort(2).argsort(2)
    return others & inner.unsqueeze(2) & (rank < count.unsqueeze(2))
