"""What the dispatcher asks of a backend, by the operators: log P, best trees, and Viterbi by length.

The prefix trees are sums over all nodes and positions at once, a few operations of plain torch for any depth;
the kernels do what would be a loop, the main chain.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.prefix_plan import prefix_plan
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.rhpcfg import reference
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.rhpcfg.triton import operators
from pcfgnat.structures.rhpcfg.triton.operators import chain_best, chain_trace
from pcfgnat.structures.semiring import NEG_INF, LogSemiring, MaxSemiring, Semiring


def log_partition(weights: Weights) -> Float[Tensor, "B"]:
    """Return log P of every target in float32 at least, with the posteriors as its gradient."""
    heads = _heads(LogSemiring(), weights)
    if not heads.shape[-1]:
        return reference.total(LogSemiring(), weights)[0]
    sizes = (weights.chain_lengths, weights.lengths)
    return operators.log_partition(heads, weights.chain, *sizes, weights.tree.prefix_depth)


def best(weights: Weights) -> tuple[Int[Tensor, "B m"], Float[Tensor, "B"]]:
    """Return the best derivation of every target: the position that each symbol emits, and the score."""
    found = _Best.of(weights)
    return found.positions(torch.zeros_like(weights.lengths)), found.spans[:, 0, 0]


@dataclass(frozen=True)
class LengthTable:
    """Best derivation of every length, when each symbol emits its best token wherever it stands."""

    scores: Float[Tensor, "B S"]
    found: "_Best"

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the symbols of the best derivation of the given length of each sentence, in order.

        Traced on the device; the only wait is for the answer.
        """
        limit = self.scores.shape[1] - 1
        wanted = torch.tensor(lengths, dtype=torch.int64).to(self.scores.device, non_blocking=True)
        used = (self.found.positions(limit - wanted) >= 0).cpu()
        return [tuple(row.nonzero().flatten().tolist()) for row in used]


def best_by_length(
    tree: SupportTree,
    tokens: Float[Tensor, "B m"],
    chain: Float[Tensor, "B C d C"],
    prefix: Float[Tensor, "B C R"],
    chain_lengths: Int[Tensor, "B"],
    max_length: int,
) -> LengthTable:
    """Viterbi over (symbol, length) (paper, section 3.4), all lengths in one pass."""
    everywhere = tokens.unsqueeze(2).expand(-1, -1, max_length)
    lengths = torch.full_like(chain_lengths, max_length)
    with torch.no_grad():
        found = _Best.of(Weights(tree, everywhere, chain, prefix, chain_lengths, lengths))
        scores = torch.constant_pad_nd(found.spans[:, 0].flip(1), (1, 0), value=NEG_INF)
    return LengthTable(scores, found)


@dataclass(frozen=True)
class _Best:
    """Tables of best derivations, to be traced from any start."""

    weights: Weights
    spans: Float[Tensor, "B C N"]
    back: Int[Tensor, "B C N"]

    @classmethod
    def of(cls, weights: Weights) -> "_Best":
        sizes = (weights.chain_lengths, weights.lengths)
        with torch.no_grad():
            heads = _heads(MaxSemiring(), weights)
            return cls(weights, *chain_best(heads, weights.chain, *sizes, weights.tree.prefix_depth))

    def positions(self, starts: Int[Tensor, "B"]) -> Int[Tensor, "B m"]:
        """Return the position that each symbol emits, counted from the start; -1 where it emits none."""
        weights = self.weights
        sizes = (weights.chain_lengths, weights.lengths)
        marked = chain_trace(self.spans, self.back, *sizes, starts, weights.tree.prefix_depth)
        with torch.enable_grad():  # the gradient of a best prefix tree marks its symbols
            tokens = weights.tokens.detach().to(marked.dtype).requires_grad_()
            heads = _heads(MaxSemiring(), Weights(weights.tree, tokens, *_others(weights)))
            (used,) = torch.autograd.grad(heads, tokens, marked)
        place = torch.arange(used.shape[2], device=used.device) - starts[:, None]
        return ((used > 0.5) * (place + 1).unsqueeze(1)).sum(-1) - 1


def _others(weights: Weights) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return weights.chain.detach(), weights.prefix.detach(), weights.chain_lengths, weights.lengths


def _heads(semiring: Semiring, weights: Weights) -> Float[Tensor, "B C Q N"]:
    """Return the heads of all states, in float32 at least."""
    wide = torch.promote_types(weights.tokens.dtype, torch.float32)
    given = Weights(
        weights.tree,
        weights.tokens.to(wide),
        weights.chain,
        weights.prefix.to(wide),
        weights.chain_lengths,
        weights.lengths,
    )
    found = reference.heads(semiring, given)
    states = prefix_plan(weights.tree.prefix_depth).states.tolist()
    return torch.stack([found[offset, width][0] for offset, width in states], 2)
