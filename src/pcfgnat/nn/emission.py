"""Log-probabilities of chosen tokens under the output softmax, without ever holding all of them."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.nn import waiting

CHUNK = {"cpu": 2**22, "cuda": 2**26}  # scores computed at a time, by device
# Rows that together carry less than this share of the gradient's mass get none.
NEGLIGIBLE = 1e-3


def token_log_probs(
    states: Float[Tensor, "R D"], weight: Float[Tensor, "V D"], types: Int[Tensor, "R K"]
) -> Float[Tensor, "R K"]:
    """Return log softmax(weight · state) of K chosen tokens for each of R states, in float32 at least.

    Scores of the whole vocabulary exist for a chunk of states at a time, and are computed again for the
    gradient; there only for states that matter. Of the nodes of a grammar most have a posterior near 0:
    those which together hold less than a thousandth of the gradient are left out.
    """
    device = states.device.type
    if not torch.amp.is_autocast_available(device):  # as on the meta device
        return _TokenLogProbs.apply(states, weight, types)[0]  # type: ignore[no-any-return,no-untyped-call]
    autocast = torch.is_autocast_enabled(device)
    dtype = torch.get_autocast_dtype(device) if autocast else weight.dtype
    with torch.autocast(device, enabled=False):
        return _TokenLogProbs.apply(states.to(dtype), weight.to(dtype), types)[0]  # type: ignore[no-any-return,no-untyped-call]


def token_log_probs_within(
    states: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    types: Int[Tensor, "R K"],
    kept: Bool[Tensor, "V"],
    most: int,
) -> Float[Tensor, "R K"]:
    """Return the same as if there were no tokens but those kept, of which `types` are.

    `most` bounds how many are kept: a device alone knows their number, and so computes scores of so many.
    """
    if waiting.at_hand(kept):
        vocabulary = kept.nonzero().flatten()
        return token_log_probs(states, weight[vocabulary], torch.searchsorted(vocabulary, types))
    order = kept.int().argsort(descending=True, stable=True)  # those kept come first
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    some, left_out = weight[order[:most]], ~kept[order[:most]]
    wide = torch.promote_types(weight.dtype, torch.float32)
    found = [
        (states[rows] @ some.t())
        .masked_fill(left_out, -math.inf)
        .log_softmax(1, dtype=wide)
        .gather(1, place[types[rows]])
        for rows in _chunks(len(states), some)
    ]
    return torch.cat(found)


def best_types(states: Float[Tensor, "R D"], weight: Float[Tensor, "V D"]) -> Int[Tensor, "R"]:
    """Return the most probable token of each state."""
    found = [(states[rows] @ weight.t()).argmax(1) for rows in _chunks(len(states), weight)]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.int64, device=states.device)


class _TokenLogProbs(torch.autograd.Function):
    """Log-probabilities of chosen tokens, and the normaliser of each state, which has no gradient."""

    @staticmethod
    def forward(states: Tensor, weight: Tensor, types: Tensor) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(states.dtype, torch.float32)
        normaliser = torch.empty(len(states), dtype=wide, device=states.device)
        chosen = torch.empty(types.shape, dtype=wide, device=states.device)
        buffer = states.new_empty(_chunk_size(weight), len(weight))  # new memory costs more than the product
        for rows in _chunks(len(states), weight):
            some = states[rows]
            scores = torch.mm(some, weight.t(), out=buffer[: len(some)]).to(wide)
            torch.gather(scores, 1, types[rows], out=chosen[rows])
            normaliser[rows] = _log_sum_exp(scores)
        return chosen.sub_(normaliser.unsqueeze(1)), normaliser

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
        states, weight, types, normaliser = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: scores of all tokens at once, or its derivative were lost

            def plain(states: Tensor, weight: Tensor) -> Tensor:
                return (states @ weight.t()).to(grad.dtype).log_softmax(1).gather(1, types)

            return (*torch.func.vjp(plain, states, weight)[1](grad), None)
        state_grad, weight_grad = torch.zeros_like(states), torch.zeros_like(weight)
        if waiting.at_hand(states):
            relevant = _relevant(grad.abs().sum(1)).nonzero().flatten()
        else:  # how many rows matter is known to the device only, and asking would mean to wait for it
            relevant = torch.arange(len(states), device=states.device)
        for part in _chunks(len(relevant), weight):
            rows = relevant[part]
            state, change = states[rows], grad[rows]
            scores = (state @ weight.t()).to(grad.dtype)
            flow = scores.sub_(normaliser[rows, None]).exp_().mul_(-change.sum(1, keepdim=True))
            flow = flow.scatter_add_(1, types[rows], change).to(states.dtype)
            state_grad[rows] = flow @ weight
            weight_grad.addmm_(flow.t(), state)
        return state_grad, weight_grad, None


def _log_sum_exp(scores: Float[Tensor, "R V"]) -> Float[Tensor, "R"]:
    """Overwrite the scores; faster than torch.logsumexp, which makes copies."""
    highest = scores.amax(1)
    return scores.sub_(highest.unsqueeze(1)).exp_().sum(1).log_().add_(highest)


def _relevant(mass: Float[Tensor, "R"]) -> Bool[Tensor, "R"]:
    """Mark the rows without which more than a negligible share of the mass would be lost."""
    ordered, order = mass.double().sort()
    needed = ordered.cumsum(0) > NEGLIGIBLE * ordered.sum()
    return torch.empty_like(needed).scatter_(0, order, needed) | ~mass.isfinite()


def _chunk_size(weight: Float[Tensor, "V D"]) -> int:
    return math.ceil(CHUNK.get(weight.device.type, CHUNK["cuda"]) / len(weight))


def _chunks(count: int, weight: Float[Tensor, "V D"]) -> Iterator[slice]:
    size = _chunk_size(weight)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
