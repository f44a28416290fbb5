"""Every position on its own: the vanilla non-autoregressive model, whose only structure is its length."""

import math
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.grammar.search import Hypothesis, Search
from pcfgnat.structures.arguments import check_scores, check_tensor
from pcfgnat.structures.distribution import (
    Padded,
    Posterior,
    SequenceDistribution,
    best_tokens,
    check_lengths,
    gather_tokens,
)
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.semiring import Semiring


@dataclass(frozen=True, eq=False)
class Independent(SequenceDistribution):
    """p(Y|X) = Π_i P(y_i | i) for sentences of exactly `lengths[b]` tokens; no other length is possible.

    `log_probs[b, i, v]` is the log-probability of token v at position i; what lies beyond `lengths[b]` is
    never looked at.
    """

    log_probs: Float[Tensor, "B N V"]
    lengths: Int[Tensor, "B"]

    def __post_init__(self) -> None:
        check_scores({"log_probs": self.log_probs})
        check_tensor("lengths", self.lengths)
        if self.log_probs.dim() != 3:
            raise ValueError(f"log_probs must have shape (B, N, V), got {tuple(self.log_probs.shape)}")
        if self.lengths.device != self.log_probs.device:
            raise ValueError(
                f"lengths must be on {self.log_probs.device} like log_probs, got {self.lengths.device}"
            )
        check_lengths(self.lengths, self.log_probs.shape[0], low=1, high=self.log_probs.shape[1])

    def __repr__(self) -> str:
        batch, positions, vocabulary = self.log_probs.shape
        size = f"{batch} sentences of up to {positions} tokens, vocabulary={vocabulary}"
        return f"Independent({size}, {self.log_probs.dtype}, {self.log_probs.device})"

    @property
    def inside(self) -> Bool[Tensor, "B N"]:
        """True at the positions that belong to a sentence."""
        return torch.arange(self.log_probs.shape[1], device=self.lengths.device) < self.lengths.unsqueeze(1)

    @profiled(DYNAMIC_PROGRAM)
    def posterior(self, target: Padded) -> "IndependentPosterior":
        """p(structure | X, Y): position i emits token i, and nothing else is possible."""
        return IndependentPosterior(self, target)

    def infeasible(self, target: Padded) -> dict[int, str]:
        """Return the targets that have probability 0, by index, and the reason."""
        reasons = {}
        for index in (~self.posterior(target).feasible).nonzero().flatten().tolist():
            given, expected = int(target.lengths[index]), int(self.lengths[index])
            if given == expected:
                reasons[index] = "it has a token of probability 0"
            else:
                reasons[index] = f"{given} tokens, but the length is {expected}"
        return reasons

    def mode(self, search: Search) -> list[Hypothesis]:
        """Decode: the best token at each position, which is both `greedy` and `viterbi`.

        The length is given, so `max_length` and the length penalty change nothing.
        """
        search.require("greedy", "viterbi")
        with torch.no_grad():
            _, tokens = best_tokens(self.log_probs, search.special_tokens, 0, self.lengths - 1)
            return self._hypotheses(tokens)

    def sample(self, generator: torch.Generator | None = None) -> list[Hypothesis]:
        """Draw a token at each position."""
        with torch.no_grad():
            chances = self.log_probs.double().exp().masked_fill(~self.inside.unsqueeze(2), 1.0)
            tokens = torch.multinomial(chances.flatten(0, 1), 1, generator=generator)
            return self._hypotheses(tokens.view(self.log_probs.shape[:2]))

    def _hypotheses(self, tokens: Int[Tensor, "B N"]) -> list[Hypothesis]:
        scores = self.log_probs.gather(2, tokens.unsqueeze(2)).squeeze(2)
        rows = zip(tokens.tolist(), scores.tolist(), self.lengths.tolist(), strict=True)
        return [
            Hypothesis(tuple(ids[:length]), math.fsum(score[:length]), tuple(range(length)))
            for ids, score, length in rows
        ]


class IndependentPosterior(Posterior):
    """The one structure of a target: node i emits position i."""

    def __init__(self, distribution: Independent, target: Padded) -> None:
        super().__init__(gather_tokens(distribution.log_probs, target))
        lengths = target.lengths.to(distribution.lengths)
        self._possible = lengths == distribution.lengths
        self._mask = target.mask

    def _total(self, semiring: Semiring, weights: tuple[Tensor, ...]) -> Tensor:
        emitted = weights[0].diagonal(dim1=1, dim2=2)  # [B, min(m, N)]
        mask = self._mask[:, : emitted.shape[1]]
        values = semiring.lift(torch.where(mask, emitted, 0.0))
        nothing = semiring.one(emitted.new_zeros(len(emitted)))
        whole = reduce(semiring.times, values.unbind(-1), nothing)
        return torch.where(self._possible, whole, semiring.zero(emitted.new_zeros(len(emitted))))
