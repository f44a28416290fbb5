"""The inside recursion of the right-heavy grammar in plain torch, over any semiring, for any depth.

This file is the specification; the fast kernels beside it are compared with it, in values and gradients.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.grammar.support_tree import SupportTree, prefix_height
from pcfgnat.structures.semiring import NEG_INF, MaxSemiring, Semiring


@dataclass(frozen=True)
class Weights:
    """All that the recursion needs: rules, the weight of each target token at each symbol, true sizes."""

    tree: SupportTree
    tokens: Float[Tensor, "B m N"]
    chain: Float[Tensor, "B C d C"]
    prefix: Float[Tensor, "B C R"]
    chain_lengths: Int[Tensor, "B"]
    lengths: Int[Tensor, "B"]


def legal_chain_rules(tree: SupportTree, chain_lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B C d C"]:
    """Which (node, left, right) of the main chain are rules: right child later, last node childless."""
    k = torch.arange(tree.chain_length, device=chain_lengths.device)
    left = torch.arange(tree.block, device=chain_lengths.device)
    later = k[None, :] > k[:, None]
    inside = k < chain_lengths[:, None]
    left_allowed = (k[:, None] > 0) | (left == 0)  # the root has no prefix tree
    return later[:, None, :] & inside[:, None, None, :] & left_allowed[:, :, None]


def inside(semiring: Semiring, weights: Weights) -> Float[Tensor, "K B S"]:
    """Total weight of the root deriving the tokens from each start s to the end of the sentence.

    `S[a, s] = ⊕_{b,w} head[a, b, w, s] ⊗ right[a, b, s+w+1]`, with the own token behind the left child,
    `head[a, b, w, s] = left[b, w, s] ⊗ token[a, s+w]`, and the sum over right children done first,
    `right[a, b, t] = ⊕_c rule[a, b, c] ⊗ S[c, t]`, as it does not depend on the split (b, w).
    """
    legal = legal_chain_rules(weights.tree, weights.chain_lengths)
    rules = semiring.lift(torch.where(legal, weights.chain, NEG_INF))
    found = heads(semiring, weights)
    return main_chain(semiring, found, rules, weights.chain_lengths, weights.lengths)


def heads(semiring: Semiring, weights: Weights) -> dict[tuple[int, int], Float[Tensor, "K B C N"]]:
    """`[offset, width]`: the left child of each node deriving so many tokens, and the own token behind them.

    What no derivation uses is impossible, as the weights may hold anything there, even NaN.
    """
    tree, lengths = weights.tree, weights.chain_lengths
    used = used_symbols(tree, lengths).unsqueeze(2)
    inner = inner_nodes(tree, lengths).unsqueeze(2)
    weights = replace(
        weights,
        tokens=torch.where(used, weights.tokens, NEG_INF),
        prefix=torch.where(inner, weights.prefix, NEG_INF),
    )
    tokens = semiring.lift(weights.tokens)
    own = tokens[:, :, 1 :: tree.block]
    return {
        (offset, width): own if left is None else semiring.times(_shift(semiring, own, width), left)
        for (offset, width), left in _left_children(semiring, weights, tokens).items()
    }


def main_chain(
    semiring: Semiring,
    heads_of: Mapping[tuple[int, int], Float[Tensor, "K B C N"]],
    rules: Float[Tensor, "K B C d C"],
    chain_lengths: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
) -> Float[Tensor, "K B S"]:
    """Sum over the main chain, one step per position: S at s needs only later positions.

    `heads_of[offset, width]` is the weight of a node's left child of that offset deriving so many tokens from
    each position, and of the node's own token behind them; (0, 0) is there always, ε and the own token.
    """
    own = heads_of[0, 0]
    positions = own.shape[-1]
    node = torch.arange(own.shape[2], device=own.device)
    is_last = node == chain_lengths[:, None] - 1
    impossible = semiring.zero(own[0, ..., 0]) if positions else None
    starts: list[Tensor] = []
    right: dict[int, Tensor] = {}  # right[t]: [K, B, C, d]
    for s in reversed(range(positions)):
        alternatives = [
            semiring.times(right[rest][..., offset], head[..., s])
            for (offset, width), head in heads_of.items()
            if (rest := s + width + 1) in right
        ]
        span = semiring.plus(alternatives) if alternatives else impossible
        ends_here = is_last & (lengths[:, None] - 1 == s)
        assert span is not None
        span = torch.where(ends_here, own[..., s], span)
        right[s] = semiring.sum(semiring.times(rules, span[:, :, None, None, :]), -1)
        starts.append(span[..., 0])
    starts.reverse()
    beyond = semiring.zero(own.new_zeros(own.shape[1]))
    return torch.stack([*starts, beyond], -1)


def used_symbols(tree: SupportTree, chain_lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B m"]:
    """Which symbols a derivation can use: not that of ε, nor the last node's prefix tree, nor padding."""
    last = chain_lengths[:, None] - 1
    symbol = torch.arange(tree.num_nodes, device=chain_lengths.device)
    return (symbol > 0) & ((symbol <= (last - 1) * tree.block + 1) | (symbol == last * tree.block + 1))


def inner_nodes(tree: SupportTree, chain_lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B C"]:
    """Which main-chain nodes have a prefix tree that derivations use: neither root nor last."""
    k = torch.arange(tree.chain_length, device=chain_lengths.device)
    return (k > 0) & (k < chain_lengths[:, None] - 1)


def total(semiring: Semiring, weights: Weights) -> Float[Tensor, "K B"]:
    """Total weight of all derivations of the whole target."""
    return inside(semiring, weights)[..., 0]


def _left_children(
    semiring: Semiring, weights: Weights, tokens: Float[Tensor, "K B m N"]
) -> dict[tuple[int, int], Tensor | None]:
    """`[offset, width] -> [K, B, C, N]`: a prefix node deriving `width` tokens from each position.

    Offset 0 is ε, which derives nothing with weight one (None). All prefix trees are alike, so every step is
    done for all of them at once; the root's, which does not exist, is filled with garbage that no rule reads.
    """
    tree = weights.tree
    values: dict[tuple[int, int], Tensor | None] = {(0, 0): None}
    for offset in sorted(range(1, tree.block), key=prefix_height):
        symbols = (
            torch.arange(tree.chain_length, device=tokens.device).sub(1).clamp(min=0) * tree.block
            + 1
            + offset
        )
        token = tokens[:, :, symbols]
        alternatives: dict[int, list[Tensor]] = {}
        for r, rule in enumerate(tree.prefix_rules()):
            if rule.parent != offset:
                continue
            rule_value = semiring.lift(weights.prefix[..., r].unsqueeze(-1))
            for left_width in _widths(values, rule.left):
                head = semiring.times(rule_value, _shift(semiring, token, left_width))
                left_value = values[rule.left, left_width]
                if left_value is not None:
                    head = semiring.times(head, left_value)
                for right_width in _widths(values, rule.right):
                    right_value = values[rule.right, right_width]
                    assert right_value is not None
                    tail = _shift(semiring, right_value, left_width + 1)
                    alternatives.setdefault(left_width + 1 + right_width, []).append(
                        semiring.times(head, tail)
                    )
        if not alternatives:
            values[offset, 1] = token  # a leaf
        for width, terms in sorted(alternatives.items()):
            values[offset, width] = semiring.plus(terms)
    return values


def _widths(values: dict[tuple[int, int], Tensor | None], offset: int) -> list[int]:
    return [width for known, width in values if known == offset]


def _shift(semiring: Semiring, value: Float[Tensor, "K B C N"], by: int) -> Float[Tensor, "K B C N"]:
    """Move the value at position i + by to i."""
    if by == 0:
        return value
    kept = value[..., by:]
    filler = value[0, ..., : value.shape[-1] - kept.shape[-1]]
    return torch.cat([kept, semiring.zero(filler)], -1)


@dataclass(frozen=True)
class LengthTable:
    """Best derivation of every length, when each symbol emits its best token wherever it stands."""

    scores: Float[Tensor, "B S"]  # by length; -inf where no derivation has it
    weights: Weights

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the symbols of the best derivation of the given length of each sentence, in order."""
        limit = self.weights.tokens.shape[2]
        start = torch.tensor([limit - length for length in lengths], device=self.weights.tokens.device)
        with torch.enable_grad():
            tokens = self.weights.tokens.detach().clone().requires_grad_()
            values = inside(MaxSemiring(), replace(self.weights, tokens=tokens))[0]
            chosen = values.gather(1, start.unsqueeze(1))
            (marks,) = torch.autograd.grad(chosen.sum(), tokens)
        return [tuple((row > 0.5).any(-1).nonzero().flatten().tolist()) for row in marks]


def best_by_length(
    tree: SupportTree,
    tokens: Float[Tensor, "B m"],
    chain: Float[Tensor, "B C d C"],
    prefix: Float[Tensor, "B C R"],
    chain_lengths: Int[Tensor, "B"],
    max_length: int,
) -> LengthTable:
    """Viterbi over (symbol, length) (paper, section 3.4): one inside pass under max gives all lengths."""
    everywhere = tokens.unsqueeze(2).expand(-1, -1, max_length)
    lengths = torch.full_like(chain_lengths, max_length)
    weights = Weights(tree, everywhere, chain, prefix, chain_lengths, lengths)
    with torch.no_grad():
        return LengthTable(inside(MaxSemiring(), weights)[0].flip(-1), weights)
