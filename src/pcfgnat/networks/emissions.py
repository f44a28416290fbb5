"""Log-probabilities of tokens at the nodes of a canvas: of all tokens, or of the target's own."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks.base import Batch, inference
from pcfgnat.networks.canvas import Canvas, CanvasNetwork
from pcfgnat.nn import token_log_probs, token_log_probs_within, waiting
from pcfgnat.structures import Padded, SequenceDistribution
from pcfgnat.structures.distribution import check_target
from pcfgnat.structures.profiling import OUTPUT_LAYER, profiled


@profiled(OUTPUT_LAYER)
def all_emissions(network: CanvasNetwork, canvas: Canvas) -> Float[Tensor, "B m V"]:
    """Return log-probabilities of the whole vocabulary, in float32 at least."""
    scores = network.embeddings.tokens.scores(canvas.states.flatten(0, 1))
    wide = torch.promote_types(scores.dtype, torch.float32)
    return scores.log_softmax(-1, dtype=wide).view(*canvas.mask.shape, -1)


@profiled(OUTPUT_LAYER)
def target_emissions(
    network: CanvasNetwork, canvas: Canvas, target: Padded, shortlist: int | None = None
) -> tuple[Float[Tensor, "B m K"], Padded]:
    """Return log-probabilities of the target's own tokens at all nodes, and the target in terms of them.

    No other tokens matter to P(Y|X). Equal tokens have equal ids, of their first occurrence. A blank, if
    there is one, comes first. With a shortlist, probabilities are among these tokens and so many of the first
    ids only.
    """
    ids = target.ids.masked_fill(~target.mask, 0)
    blank = network.framing.blank
    tokens = ids if blank is None else torch.cat([ids.new_full((len(ids), 1), blank), ids], 1)
    states, wanted = _nodes(canvas, tokens)
    weight = network.embeddings.tokens.weight
    if shortlist is None:
        found = token_log_probs(states, weight, wanted)
    else:
        frequent = torch.arange(len(weight), device=ids.device) < shortlist
        kept = frequent.index_fill(0, tokens.flatten(), True)
        most = min(shortlist + tokens.numel(), len(weight))
        found = token_log_probs_within(states, weight, wanted, kept, most)
    emit = _placed(found, canvas)
    first = (ids.unsqueeze(2) == tokens.unsqueeze(1)).int().argmax(2)
    return emit, Padded(first, target.lengths)


def _nodes(canvas: Canvas, tokens: Int[Tensor, "B K"]) -> tuple[Float[Tensor, "R D"], Int[Tensor, "R K"]]:
    """Return the states of all nodes, and the tokens of the sentence that each belongs to.

    Padding is left out on the CPU only: how much of it there is, another device alone knows.
    """
    if waiting.at_hand(canvas.mask):
        return canvas.states[canvas.mask], tokens[canvas.mask.nonzero()[:, 0]]
    everywhere = tokens.unsqueeze(1).expand(-1, canvas.mask.shape[1], -1)
    return canvas.states.flatten(0, 1), everywhere.flatten(0, 1)


def _placed(found: Float[Tensor, "R K"], canvas: Canvas) -> Float[Tensor, "B m K"]:
    """Put numbers of the nodes of `_nodes` where these are; 0 elsewhere."""
    mask = canvas.mask.unsqueeze(2)
    if waiting.at_hand(mask):
        return found.new_zeros(*canvas.mask.shape, found.shape[1]).masked_scatter(mask, found)
    return torch.where(mask, found.view(*canvas.mask.shape, -1), 0.0)


def with_columns(target: Padded) -> Padded:
    """Return the targets; if all are empty, with a column of padding, so that they can be indexed."""
    return target if target.ids.shape[1] else Padded(target.ids.new_zeros(len(target.ids), 1), target.lengths)


def translation_distribution(network: CanvasNetwork, source: Padded) -> SequenceDistribution:
    """Return p(Y|X) over the whole vocabulary, without gradient."""
    with inference(network):
        memory = network.encode(source)
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
