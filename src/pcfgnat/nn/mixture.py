"""Rule scores of several heads mixed into one distribution, one head at a time.

The plain way holds a table of all heads, H times the size of the result, and autograd keeps several of them.
Here one head's scores exist at a time, and are computed again for the gradient.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def mixed_rules(
    parent: Float[Tensor, "B H C E"],
    lefts: Float[Tensor, "B H C d E"],
    right: Float[Tensor, "B H C E"],
    gate: Float[Tensor, "B H C"],
    legal: Bool[Tensor, "B C d C"],
) -> Float[Tensor, "B C d C"]:
    """Return `log Σ_h exp(gate_h) softmax_h(score)` over the legal pairs of each parent, -inf elsewhere.

    `score(a, b, c) = (q_a + k_b) · r_c + q_a · k_b` of each head; the gate is in logs. Any factor of the
    scores is to be in the vectors.
    """
    return _MixedRules.apply(parent, lefts, right, gate, legal)  # type: ignore[no-any-return,no-untyped-call]


def plain_mixed_rules(
    parent: Float[Tensor, "B H C E"],
    lefts: Float[Tensor, "B H C d E"],
    right: Float[Tensor, "B H C E"],
    gate: Float[Tensor, "B H C"],
    legal: Bool[Tensor, "B C d C"],
) -> Float[Tensor, "B C d C"]:
    """Return the same with a table of all heads, differentiable any number of times."""
    heads = [_head(parent[:, h], lefts[:, h], right[:, h], legal)[0] for h in range(parent.shape[1])]
    table = torch.stack([head.masked_fill(~legal, 0.0) for head in heads], 1)
    total = (table + gate[..., None, None]).logsumexp(1)
    return total.masked_fill(~legal, -math.inf)


class _MixedRules(torch.autograd.Function):
    @staticmethod
    def forward(parent: Tensor, lefts: Tensor, right: Tensor, gate: Tensor, legal: Tensor) -> Tensor:
        total: Tensor | None = None
        for h in range(parent.shape[1]):
            part = _head(parent[:, h], lefts[:, h], right[:, h], legal)[0].add_(gate[:, h, :, None, None])
            total = part if total is None else torch.logaddexp(total, part, out=total)
        assert total is not None
        return total.masked_fill_(~legal, -math.inf)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *given, legal, total = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph: all heads at once, or a second derivative would be lost

            def plain(parent: Tensor, lefts: Tensor, right: Tensor, gate: Tensor) -> Tensor:
                return plain_mixed_rules(parent, lefts, right, gate, legal)

            return (*torch.func.vjp(plain, *given)[1](grad), None)
        grad = grad.masked_fill(~legal, 0.0)
        total = total.masked_fill(~legal, 0.0)
        found = [torch.stack(parts, 1) for parts in zip(*_gradients(given, legal, total, grad), strict=True)]
        return (*found, None)


def _head(
    parent: Float[Tensor, "B C E"],
    lefts: Float[Tensor, "B C d E"],
    right: Float[Tensor, "B C E"],
    legal: Bool[Tensor, "B C d C"],
) -> tuple[Float[Tensor, "B C d C"], Float[Tensor, "B C d E"]]:
    """Return one head's log-probabilities, and q + k; anything where nothing is legal."""
    both = parent.unsqueeze(2) + lefts
    own = (parent.unsqueeze(2) * lefts).sum(-1, keepdim=True)
    scores = (both.flatten(1, 2) @ right.transpose(1, 2)).view(legal.shape) + own
    hidden = ~legal & legal.flatten(2).any(-1)[:, :, None, None]
    scores = scores.masked_fill(hidden, -math.inf)
    return scores.flatten(2).log_softmax(-1).view(legal.shape), both


def _gradients(
    given: list[Tensor], legal: Tensor, total: Tensor, grad: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Yield the gradients of each head's vectors and gate."""
    parent, lefts, right, gate = given
    for h in range(parent.shape[1]):
        q, k, r = parent[:, h], lefts[:, h], right[:, h]
        log_share, both = _head(q, k, r, legal)
        flow = (log_share + gate[:, h, :, None, None] - total).exp_().masked_fill_(~legal, 0.0).mul_(grad)
        to_gate = flow.flatten(2).sum(-1)  # B C
        to_score = flow.sub_(log_share.exp_().masked_fill_(~legal, 0.0).mul_(to_gate[..., None, None]))
        to_own = to_score.sum(-1, keepdim=True)  # B C d 1
        to_both = (to_score.flatten(1, 2) @ r).view_as(both)
        to_right = to_score.flatten(1, 2).transpose(1, 2) @ both.flatten(1, 2)
        to_left = to_both + to_own * q.unsqueeze(2)
        to_parent = (to_both + to_own * k).sum(2)
        yield to_parent, to_left, to_right, to_gate
