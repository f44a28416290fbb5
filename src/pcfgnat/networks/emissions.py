"""Log-probabilities of tokens at the nodes of a canvas: of all tokens, or of the target's own."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.networks.base import Batch, Memory, inference
from pcfgnat.networks.canvas import Canvas, CanvasNetwork
from pcfgnat.nn import token_log_probs, token_log_probs_within, waiting
from pcfgnat.structures import Padded, SequenceDistribution
from pcfgnat.structures.distribution import check_target
from pcfgnat.structures.profiling import OUTPUT_LAYER, profiled


@dataclass(frozen=True)
class Shortlist:
    """Tokens among which probabilities are, beside the targets' own: which they are, and how many."""

    kept: Bool[Tensor, "V"]
    size: int

    @classmethod
    def first(cls, size: int, vocabulary: int, device: torch.device) -> "Shortlist":
        """Return the first ids, which are frequent in learned vocabularies."""
        return cls(torch.arange(vocabulary, device=device) < size, size)

    @classmethod
    def drawn(cls, size: int, chance: Float[Tensor, "V"]) -> "Shortlist":
        """Return the first ids, and as many of the others: those with the least `chance`."""
        size = min(size, len(chance))
        kept = cls.first(size - size // 2, len(chance), chance.device).kept
        others = chance.masked_fill(kept, torch.inf).topk(size // 2, largest=False).indices
        return cls(kept.index_fill(0, others, True), size)


@profiled(OUTPUT_LAYER)
def all_emissions(network: CanvasNetwork, canvas: Canvas) -> Float[Tensor, "B m V"]:
    """Return log-probabilities of the whole vocabulary, in float32 at least."""
    scores = network.embeddings.tokens.scores(canvas.states.flatten(0, 1))
    wide = torch.promote_types(scores.dtype, torch.float32)
    return scores.log_softmax(-1, dtype=wide).view(*canvas.mask.shape, -1)


@profiled(OUTPUT_LAYER)
def target_emissions(
    network: CanvasNetwork, canvas: Canvas, target: Padded, shortlist: Shortlist | None = None
) -> tuple[Float[Tensor, "B m K"], Padded]:
    """Return log-probabilities of the target's own tokens at all nodes, and the target in terms of them.

    No other tokens matter to P(Y|X). Equal tokens have equal ids, of their first occurrence. A blank, if
    there is one, comes first. With a shortlist, probabilities are among its tokens and those of the batch's
    targets only.
    """
    ids = target.ids.masked_fill(~target.mask, 0)
    blank = network.framing.blank
    tokens = ids if blank is None else torch.cat([ids.new_full((len(ids), 1), blank), ids], 1)
    states, wanted = _nodes(canvas, tokens)
    weight = network.embeddings.tokens.weight
    if shortlist is None:
        found = token_log_probs(states, weight, wanted)
    else:
        kept = shortlist.kept.index_fill(0, tokens.flatten(), True)
        most = min(shortlist.size + tokens.numel(), len(weight))
        found = token_log_probs_within(states, weight, wanted, kept, most)
    emit = waiting.placed(canvas.mask, found)
    first = (ids.unsqueeze(2) == tokens.unsqueeze(1)).int().argmax(2)
    return emit, Padded(first, target.lengths)


def _nodes(canvas: Canvas, tokens: Int[Tensor, "B K"]) -> tuple[Float[Tensor, "R D"], Int[Tensor, "R K"]]:
    """Return the states of all nodes, and the tokens of the sentence that each belongs to.

    Padding is left out on the CPU only: how much of it there is, another device alone knows.
    """
    everywhere = tokens.unsqueeze(1).expand(-1, canvas.mask.shape[1], -1)
    return waiting.picked(canvas.mask, canvas.states), waiting.picked(canvas.mask, everywhere)


def with_columns(target: Padded) -> Padded:
    """Return the targets; if all are empty, with a column of padding, so that they can be indexed."""
    return target if target.ids.shape[1] else Padded(target.ids.new_zeros(len(target.ids), 1), target.lengths)


def translation_distribution(network: CanvasNetwork, source: Padded) -> SequenceDistribution:
    """Return p(Y|X) over the whole vocabulary, without gradient."""
    with inference(network):
        return encoded_distribution(network, network.encode(source))


def encoded_distribution(network: CanvasNetwork, memory: Memory) -> SequenceDistribution:
    """Return p(Y|X) of encoded sources over the whole vocabulary, without gradient."""
    with inference(network):
        canvas = network.fill(memory, network.blank(memory, None))
        return network.distribution(canvas, all_emissions(network, canvas))


def target_distribution(network: CanvasNetwork, batch: Batch) -> tuple[SequenceDistribution, Padded]:
    """Return p(Y|X) over the targets' own tokens, and the targets in terms of them, without gradient.

    Each sentence has a vocabulary of its own, so that B · m · n numbers are held, and never B · m · V.
    """
    with inference(network):
        memory = network.encode(batch.source)
        check_target(batch.target, len(memory.lengths), network.vocabulary)
        canvas = network.fill(memory, network.blank(memory, batch.target))
        emit, local = target_emissions(network, canvas, with_columns(network.emitted(batch.target)))
        return network.distribution(canvas, emit), local
