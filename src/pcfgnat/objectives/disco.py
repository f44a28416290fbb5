"""DisCo (Kasai et al. 2020): every token is predicted from a random set of the others."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from pcfgnat.networks import Batch, CanvasIds, DiscoNetwork, Network
from pcfgnat.nn import LengthHead
from pcfgnat.objectives.base import Loss, Objective, ObjectiveError
from pcfgnat.objectives.randomness import noise, own_seeds
from pcfgnat.objectives.smoothing import smoothed_nll
from pcfgnat.structures import Padded
from pcfgnat.structures.distribution import check_target

COUNT, ROW = 0, 1  # streams of random numbers


@dataclass(frozen=True)
class Disco(Objective):
    """Label-smoothed cross-entropy of every token between bos and eos, and the length.

    Of n tokens, each is predicted from 0 … n - 1 of the others, all numbers and all sets equally likely and
    independent of those of other tokens; bos and eos are always seen. The metric `nll` is the mean without
    smoothing. Empty targets are left out.

    label_smoothing: ε, probability that is spread over the whole vocabulary
    length_weight:   weight of the length's mean over sentences beside the mean over tokens
    """

    label_smoothing: float = 0.1
    length_weight: float = 0.1

    weight = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and less than 1, got {self.label_smoothing}"
            )
        if not self.length_weight > 0:
            raise ValueError(f"length_weight must be positive, got {self.length_weight}")

    def check(self, network: Network) -> None:
        """Raise an error unless every node of the network sees a set of tokens of its own."""
        if not isinstance(network, DiscoNetwork):
            raise ObjectiveError(f"disco trains networks of kind disco, got {type(network).__name__}")

    def loss(self, network: Network, batch: Batch, progress: float) -> Loss:
        """Return the mean over tokens."""
        assert isinstance(network, DiscoNetwork)
        assert network.length is not None
        memory = network.encode(batch.source)
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        canvas = _with_target(CanvasIds.blank(network.canvas_lengths(memory, batch.target)), batch.target)
        inner = inner_nodes(canvas.lengths)
        filled = network.fill_visible(memory, canvas, random_sets(canvas.lengths, own_seeds(batch)))
        output, label = network.embeddings.tokens.weight, canvas.ids[inner]
        costs, nll = smoothed_nll(filled.states[inner], output, label, self.label_smoothing)
        counted = canvas.lengths > 2
        tokens, sentences = len(label), int(counted.sum())
        lengths = LengthHead.cost(network.length_scores(memory), memory.lengths, batch.target.lengths)
        length = self.length_weight * lengths[counted].sum() / max(sentences, 1)
        metrics = {"nll": float(nll.detach().sum()) / max(tokens, 1), "length_loss": float(length.detach())}
        value = costs.sum() / max(tokens, 1) + length
        return Loss(value, sentences, tokens, len(counted) - sentences, metrics)


def inner_nodes(lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B m"]:
    """Mark the nodes between bos and eos."""
    node = torch.arange(int(lengths.max()), device=lengths.device)
    return (node > 0) & (node < lengths.unsqueeze(1) - 1)


def random_sets(lengths: Int[Tensor, "B"], seeds: Int[Tensor, "B"]) -> Bool[Tensor, "B m m"]:
    """Draw the inner nodes that each inner node sees, by sentence and node."""
    inner = inner_nodes(lengths)
    sentences, nodes = inner.shape
    count = (noise(seeds, nodes, COUNT) * (lengths - 2).unsqueeze(1)).floor()
    own_seeds = (noise(seeds, nodes, ROW) * 2**53).long()  # of each node, whatever the batch is padded to
    chance = noise(own_seeds.flatten(), nodes).view(sentences, nodes, nodes)
    others = inner.unsqueeze(1) & ~torch.eye(nodes, dtype=torch.bool, device=inner.device)
    rank = chance.masked_fill(~others, torch.inf).argsort(2).argsort(2)
    return others & inner.unsqueeze(2) & (rank < count.unsqueeze(2))


def _with_target(blank: CanvasIds, target: Padded) -> CanvasIds:
    """Return the canvas with a target's tokens; what is shorter than bos and eos stays blank."""
    width = min(blank.ids.shape[1], target.ids.shape[1])
    ids = blank.ids.clone()
    ids[:, :width] = torch.where(target.mask[:, :width], target.ids[:, :width], ids[:, :width])
    return CanvasIds(ids, blank.lengths)
