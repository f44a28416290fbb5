"""Semirings: one recursion, many questions (sum, best, k best, sample, count, entropy).

A value is a tensor with the semiring's components in front, `[K, ...]`. Impossible is -inf, never a large
negative number: in float32 that would absorb whatever is added to it and look possible.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NEG_INF = float("-inf")


class Semiring(ABC):
    """How to combine alternatives (`sum`) and parts (`times`) of derivations."""

    width: int = 1

    @abstractmethod
    def lift(self, log_weight: Tensor) -> Tensor:
        """Turn log-weights `[...]` into values `[K, ...]`."""

    @abstractmethod
    def sum(self, value: Tensor, dim: int) -> Tensor:
        """Add up alternatives along `dim`, which counts from the end."""

    @abstractmethod
    def times(self, left: Tensor, right: Tensor) -> Tensor:
        """Join two parts of a derivation; the shapes broadcast."""

    def plus(self, alternatives: Sequence[Tensor]) -> Tensor:
        """Add up alternatives of one shape."""
        return (
            alternatives[0] if len(alternatives) == 1 else self.sum(torch.stack(list(alternatives), -1), -1)
        )

    def zero(self, like: Tensor) -> Tensor:
        """Return the value of the impossible, in the shape of the log-weights `like`."""
        return self.lift(torch.full_like(like, NEG_INF))

    def one(self, like: Tensor) -> Tensor:
        """Return the value of the empty derivation, in the shape of the log-weights `like`."""
        return self.lift(torch.zeros_like(like))


class _LogSumExp(torch.autograd.Function):
    """`logsumexp` whose gradient is 0, not NaN, where every term is -inf; `dim` counts from the end."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, dim: int) -> Tensor:
        return torch.logsumexp(value, dim)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        value, ctx.dim = inputs
        ctx.save_for_backward(value, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        value, result = ctx.saved_tensors
        return grad.unsqueeze(ctx.dim) * softmax_weights(value, result, ctx.dim), None


class _SampledSum(torch.autograd.Function):
    """`logsumexp` forward; backward sends the gradient to one term, drawn by its share of the sum."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, dim: int, generator: torch.Generator | None) -> Tensor:
        result = torch.logsumexp(value, dim)
        ctx.save_for_backward(value, result)
        ctx.dim, ctx.generator = dim, generator
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        value, result = ctx.saved_tensors
        # exponential race: with e ~ Exp(1), argmax p/e is a draw from p
        race = torch.empty_like(value).exponential_(generator=ctx.generator)
        winner = (softmax_weights(value, result, ctx.dim) / race).argmax(ctx.dim, keepdim=True)
        return torch.zeros_like(value).scatter_(ctx.dim, winner, grad.unsqueeze(ctx.dim)), None, None


def softmax_weights(value: Tensor, total: Tensor, dim: int) -> Tensor:
    """`exp(value - total)`, with 0 where the total itself is impossible."""
    finite = torch.where(total == NEG_INF, torch.zeros_like(total), total)
    return torch.exp(value - finite.unsqueeze(dim))


def logsumexp(value: Tensor, dim: int) -> Tensor:
    """Sum in log space, safe in value and gradient where everything is -inf."""
    return _LogSumExp.apply(value, dim)  # type: ignore[no-any-return,no-untyped-call]


class LogSemiring(Semiring):
    """Total probability; its gradient is the posterior."""

    def lift(self, log_weight: Tensor) -> Tensor:
        return log_weight.unsqueeze(0)

    def sum(self, value: Tensor, dim: int) -> Tensor:
        return logsumexp(value, dim)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


class MaxSemiring(LogSemiring):
    """Probability of the best derivation; its gradient marks that derivation."""

    def sum(self, value: Tensor, dim: int) -> Tensor:
        return value.max(dim).values  # not amax: that shares the gradient between ties


class SampleSemiring(LogSemiring):
    """Total probability; its gradient marks one derivation drawn from the posterior."""

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def sum(self, value: Tensor, dim: int) -> Tensor:
        return _SampledSum.apply(value, dim, self.generator)  # type: ignore[no-any-return,no-untyped-call]


class KBestSemiring(Semiring):
    """The k best derivations, best first; the gradient of the i-th marks the i-th."""

    def __init__(self, k: int) -> None:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        self.width = k

    def lift(self, log_weight: Tensor) -> Tensor:
        rest = torch.full_like(log_weight, NEG_INF).expand(self.width - 1, *log_weight.shape)
        return torch.cat([log_weight.unsqueeze(0), rest])

    def sum(self, value: Tensor, dim: int) -> Tensor:
        candidates = value.movedim(0, -1).movedim(dim - 1, -2).flatten(-2)
        return self._best(candidates)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        pairs = left.unsqueeze(0) + right.unsqueeze(1)
        return self._best(pairs.movedim((0, 1), (-2, -1)).flatten(-2))

    def _best(self, candidates: Tensor) -> Tensor:
        return candidates.topk(self.width, dim=-1).values.movedim(-1, 0)


class CountSemiring(Semiring):
    """The number of derivations of non-zero probability, in float64 (exact up to 2^53)."""

    def lift(self, log_weight: Tensor) -> Tensor:
        return (log_weight > NEG_INF).to(torch.float64).unsqueeze(0)

    def sum(self, value: Tensor, dim: int) -> Tensor:
        return value.sum(dim)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left * right


class EntropySemiring(Semiring):
    """Components (log Z, H): H is the entropy of the derivations that make up Z.

    The expectation semiring of -log p, kept normalised so that nothing overflows: alternatives with shares
    p_i give H = Σ p_i (H_i - log p_i), and the entropies of independent parts add up.
    """

    width = 2

    def lift(self, log_weight: Tensor) -> Tensor:
        return torch.stack([log_weight, torch.zeros_like(log_weight)])

    def sum(self, value: Tensor, dim: int) -> Tensor:
        log_z, entropy = value.unbind(0)
        total = logsumexp(log_z, dim)
        finite_total = torch.where(total == NEG_INF, 0.0, total).unsqueeze(dim)
        possible = log_z > NEG_INF
        log_share = torch.where(possible, log_z, finite_total) - finite_total
        share = torch.where(possible, log_share.exp(), 0.0)
        return torch.stack([total, (share * (entropy - log_share)).sum(dim)])

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right
