"""The total weight of all derivations of all sentences, and what follows from it.

A weighted grammar whose rows do not add up to 1 still defines a distribution over derivations: each is as
probable as its weight over the total. The total's gradients are the expected uses of rules and symbols, and
dividing every row by the totals below it gives the one normalised grammar of the same distribution.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.support_tree import SupportTree, prefix_height
from pcfgnat.structures.rhpcfg.reference import inner_nodes, legal_chain_rules, used_symbols
from pcfgnat.structures.semiring import NEG_INF, logsumexp


@dataclass(frozen=True)
class FreeWeights:
    """A grammar without a target: rules, and the total weight of the tokens of each symbol."""

    tree: SupportTree
    chain: Float[Tensor, "B C d C"]
    prefix: Float[Tensor, "B C R"]
    symbols: Float[Tensor, "B m"]
    chain_lengths: Int[Tensor, "B"]


@dataclass(frozen=True)
class Totals:
    """Rules divided by what they lead to, and the weight of everything.

    chain, prefix: log-probabilities of the normalised grammar; -inf where no rule is
    total:         log of the weight of all derivations of all sentences
    """

    chain: Float[Tensor, "B C d C"]
    prefix: Float[Tensor, "B C R"]
    total: Float[Tensor, "B"]


def totals(weights: FreeWeights) -> Totals:
    """Add up all derivations, from the last main-chain node to the root; O(C² d) per sentence."""
    tree, weights = weights.tree, _without_padding(weights)
    below, prefix = _prefix_totals(weights)  # [B, C, d]
    rules = weights.chain + below.unsqueeze(-1)
    own = weights.symbols[:, 1 :: tree.block]
    last = weights.chain_lengths - 1
    rest = own.new_full((len(own), 0), NEG_INF)  # totals of the nodes behind k
    rows: list[Tensor] = []
    for k in reversed(range(tree.chain_length)):
        ends = last == k
        row = rules[:, k, :, k + 1 :] + rest.unsqueeze(1)
        found = logsumexp(row.flatten(1), -1) if row.shape[2] else own.new_full((len(own),), NEG_INF)
        rows.append(torch.constant_pad_nd(_divided(row, found[:, None, None]), (k + 1, 0), value=NEG_INF))
        rest = torch.cat([torch.where(ends, own[:, k], own[:, k] + found).unsqueeze(1), rest], 1)
    return Totals(torch.stack(rows[::-1], 1), prefix, rest[:, 0])


def expected_uses(
    weights: FreeWeights,
) -> tuple[Float[Tensor, "B C d C"], Float[Tensor, "B C R"], Float[Tensor, "B m"]]:
    """Return how often each rule and each symbol is used on average; differentiable."""

    def total(chain: Tensor, prefix: Tensor, symbols: Tensor) -> Tensor:
        return totals(replace(weights, chain=chain, prefix=prefix, symbols=symbols)).total

    found, pull = torch.func.vjp(total, weights.chain, weights.prefix, weights.symbols)[:2]
    chain, prefix, symbols = pull(torch.ones_like(found))
    return chain, prefix, symbols


def _without_padding(weights: FreeWeights) -> FreeWeights:
    """Make impossible whatever no derivation uses, as that may hold anything, even NaN."""
    tree, lengths = weights.tree, weights.chain_lengths
    return replace(
        weights,
        chain=torch.where(legal_chain_rules(tree, lengths), weights.chain, NEG_INF),
        prefix=torch.where(inner_nodes(tree, lengths).unsqueeze(2), weights.prefix, NEG_INF),
        symbols=torch.where(used_symbols(tree, lengths), weights.symbols, NEG_INF),
    )


def _prefix_totals(weights: FreeWeights) -> tuple[Float[Tensor, "B C d"], Float[Tensor, "B C R"]]:
    """Return the total below each prefix node by offset (ε is 0), and the normalised prefix rules."""
    tree, rules = weights.tree, weights.tree.prefix_rules()
    blocks = torch.arange(tree.chain_length, device=weights.symbols.device).sub(1).clamp(min=0) * tree.block
    below = {0: torch.zeros_like(weights.symbols[:, 1 :: tree.block])}
    divided: dict[int, Tensor] = {}
    for offset in sorted(range(1, tree.block), key=prefix_height):
        token = weights.symbols[:, blocks + 1 + offset]
        own = [number for number, rule in enumerate(rules) if rule.parent == offset]
        if not own:
            below[offset] = token
            continue
        parts = [
            weights.prefix[..., number] + below[rules[number].left] + below[rules[number].right]
            for number in own
        ]
        row = torch.stack(parts, -1)
        found = logsumexp(row, -1)
        below[offset] = token + found
        divided |= dict(zip(own, _divided(row, found.unsqueeze(-1)).unbind(-1), strict=True))
    prefix = torch.stack([divided[r] for r in range(len(rules))], -1) if rules else weights.prefix
    return torch.stack([below[offset] for offset in range(tree.block)], -1), prefix


def _divided(row: Tensor, total: Tensor) -> Tensor:
    """Return the shares of a row; a row without a possible entry stays impossible."""
    return torch.where(total == NEG_INF, NEG_INF, row - torch.where(total == NEG_INF, 0.0, total))
