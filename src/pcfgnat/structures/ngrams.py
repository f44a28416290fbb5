"""Expected numbers of n-grams under a grammar, exactly and without enumerating sentences.

A window of n neighbouring tokens of a derivation has one highest node, which lies inside it: what stands
before that node ends the yield of its left child, what stands behind it begins the yield of its right child,
and given the rule the two are independent. So, with `use` the chance that a node is used, over all nodes and
rules,

    E[count(s)] = Σ_a use_a Σ_<b,c> P(<b,c>|a) Σ_u End_b(s_<u) · p_a(s_u) · Begin_c(s_>u)

All of it runs in probability space: there are n factors at most, only sums of non-negative terms, and what
underflows is worth nothing. Rules must be normalised. Depth 0 is the lattice of the DA-Transformer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.grammar.consensus import window_columns
from pcfgnat.grammar.support_tree import SupportTree, prefix_height
from pcfgnat.structures.distribution import Padded
from pcfgnat.structures.rhpcfg.reference import inner_nodes, legal_chain_rules, used_symbols
from pcfgnat.structures.semiring import NEG_INF
from pcfgnat.structures.transforms import without_autocast

# Smaller logs count as impossible: counts change by 4e-18, and denormal numbers would slow processors down.
LOWEST_LOG = -40.0
# Fewer expected windows than this are rounding errors of none.
FEWEST_WINDOWS = 1e-6

# by (offset, width) of a prefix node and its part of a window, a value for each start; None is 1, absent is 0
Parts = dict[tuple[int, int], Float[Tensor, "B C starts"] | None]


@dataclass(frozen=True)
class RuleUsage:
    """Probabilities of the rules, and of every node to be used by a derivation.

    prefix_use: by offset in each prefix tree; offset 0, which is ε, holds 0
    left:       `Σ_c P(<b,c>|a)`; the last main-chain node takes ε
    following:  `Σ_b P(<b,c>|a)`
    """

    tree: SupportTree
    chain: Float[Tensor, "B C d C"]
    prefix: Float[Tensor, "B C R"]
    left: Float[Tensor, "B C d"]
    following: Float[Tensor, "B C C"]
    chain_use: Float[Tensor, "B C"]
    prefix_use: Float[Tensor, "B C d"]
    emitting: Bool[Tensor, "B m"]

    @property
    def expected_length(self) -> Float[Tensor, "B"]:
        """Return the expected number of tokens of a sentence, bos and eos included."""
        return self.chain_use.sum(1) + self.prefix_use.sum((1, 2))


@runtime_checkable
class CountsNgrams(Protocol):
    """A distribution over sentences whose expected n-grams can be computed."""

    def rule_usage(self) -> RuleUsage:
        """Return the probabilities of rules and of the use of nodes."""

    def symbol_tokens(self, target: Padded) -> Float[Tensor, "B m N"]:
        """Return the log-probability of every target token at every symbol, -inf on padding."""


@dataclass(frozen=True)
class NgramScore:
    """How well the n-grams of a distribution match those of a target, differentiable.

    matched:         `Σ_g min(E[count(g)], count of g in the target)`
    precision:       matched, as a share of the expected number of n-grams
    brevity:         BLEU's penalty, for the expected length
    expected_length: mean number of tokens of a sentence
    """

    matched: Float[Tensor, "B"]
    precision: Float[Tensor, "B"]
    brevity: Float[Tensor, "B"]
    expected_length: Float[Tensor, "B"]

    @property
    def score(self) -> Float[Tensor, "B"]:
        """Return precision times brevity, what training maximises."""
        return self.brevity * self.precision


def rule_usage(
    tree: SupportTree,
    chain: Float[Tensor, "B C d C"],
    prefix: Float[Tensor, "B C R"],
    chain_lengths: Int[Tensor, "B"],
) -> RuleUsage:
    """Return how probable every node is to be used, from log-probabilities of rules: one triangular solve.

    `use = e_root + followingᵀ use` on the main chain; inside prefix trees parents are done before children.
    """
    with without_autocast(chain.device):
        rules = _probabilities(chain, legal_chain_rules(tree, chain_lengths))
        prefix_rules = _probabilities(prefix, inner_nodes(tree, chain_lengths).unsqueeze(2))
        left, following = rules.sum(3), rules.sum(2)
        is_last = torch.arange(tree.chain_length, device=chain.device) == chain_lengths.unsqueeze(1) - 1
        left = left + torch.constant_pad_nd(is_last.unsqueeze(2).to(left), (0, tree.block - 1))
        identity = torch.eye(tree.chain_length, dtype=rules.dtype, device=rules.device)
        root = identity[:, :1].expand(len(rules), -1, -1)
        used = torch.linalg.solve_triangular(
            identity - following.mT, root, upper=False, unitriangular=True
        ).squeeze(2)
        prefix_use = _prefix_use(tree, used.unsqueeze(2) * left, prefix_rules)
    emitting = used_symbols(tree, chain_lengths)
    return RuleUsage(tree, rules, prefix_rules, left, following, used, prefix_use, emitting)


def window_counts(usage: RuleUsage, tokens: Float[Tensor, "B m N"], n: int) -> Float[Tensor, "B windows"]:
    """Return the expected number of occurrences of every window of n columns.

    `tokens[b, i, t]` is the log-probability of column t's token at symbol i. Takes
    `C² · ((n-2) · d + 1) · N` multiplications in products of matrices, and memory for `n · C · d · N`
    numbers.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if tokens.shape[2] < n:
        return usage.left.new_zeros(len(tokens), 0)
    with without_autocast(tokens.device):
        tables = _Windows(usage, _by_block(usage, tokens))
        for width in range(1, n):
            tables.add(width, reach_over=width < n - 1)
        return tables.count(n)


def ngram_score(distribution: CountsNgrams, target: Padded, n: int) -> NgramScore:
    """Return the score of a target's n-grams under a distribution, for n = 1, 2 or 3.

    Counts are clipped in expectation. At a tie of count and reference the gradient is 0, so that a confident
    model is left alone.
    """
    if not 1 <= n <= 3:
        raise ValueError(f"n must be 1, 2 or 3, got {n}")
    usage = distribution.rule_usage()
    counts = window_counts(usage, distribution.symbol_tokens(target), n)
    share = counts / window_repeats(target, n)
    matched = torch.where(share < 1, share, 1.0).sum(1)
    length = usage.expected_length
    windows = length - (n - 1)  # every sentence has two tokens at least
    precision = matched / torch.where(windows > FEWEST_WINDOWS, windows, 1.0)
    wanted = target.lengths.to(length)
    brevity = torch.where(length < wanted, 1 - wanted / length, 0.0).exp()
    return NgramScore(matched, precision, brevity, length)


def window_repeats(target: Padded, n: int) -> Int[Tensor, "B windows"]:
    """Return how often each window of n tokens occurs in its own sentence; 1 beyond the sentence."""
    windows = max(target.ids.shape[1] - n + 1, 0)
    inside = target.mask[:, target.ids.shape[1] - windows :]  # whether the window's last token is
    equal = inside.unsqueeze(1) & inside.unsqueeze(2)
    for shift in range(n if windows else 0):
        ids = target.ids[:, shift : shift + windows]
        equal = equal & (ids.unsqueeze(1) == ids.unsqueeze(2))
    return equal.sum(2).clamp(min=1)


def candidate_counts(
    distribution: CountsNgrams, candidates: Sequence[Sequence[Sequence[int]]], n: int
) -> list[list[Float[Tensor, "_"]]]:
    """Return the expected number of every window of every candidate of every sentence, without bos and eos.

    Root and last node, which emit bos and eos, do not take part. Equal windows are computed once.
    """
    plans = [window_columns(own, n) for own in candidates]
    usage = distribution.rule_usage()
    columns = Padded.from_lists([list(plan.tokens) for plan in plans])
    device = usage.left.device
    tokens = distribution.symbol_tokens(Padded(columns.ids.to(device), columns.lengths.to(device)))
    symbol = torch.arange(tokens.shape[1], device=device)
    inner = (symbol > 1) & (symbol < usage.emitting.long().mul(symbol).amax(1, keepdim=True))
    counts = window_counts(usage, torch.where(inner.unsqueeze(2), tokens, NEG_INF), n)
    return [
        [row[torch.tensor(starts, dtype=torch.int64, device=device)] for starts in plan.starts]
        for row, plan in zip(counts, plans, strict=True)
    ]


class _Windows:
    """What every node derives whole, begins with and ends with, by the width of that part of a window.

    A table of width w has a value for each start `0 … N - w`.
    """

    def __init__(self, usage: RuleUsage, tokens: Float[Tensor, "B C d N"]) -> None:
        self.usage = usage
        *prefix_tokens, self.chain_tokens = tokens.unbind(2)
        self.prefix_tokens = dict(enumerate(prefix_tokens, start=1))
        self.columns = tokens.shape[3]
        self.whole: Parts = {(0, 0): None}
        self.begin: Parts = {(offset, 0): None for offset in range(usage.tree.block)}
        self.end: Parts = dict(self.begin)
        # by width: what follows the token of a main-chain node, with each left child and with any
        self.right = {0: usage.left.unsqueeze(3).expand(-1, -1, -1, self.columns + 1)}
        self.ahead: dict[int, Tensor | None] = {0: None}

    def add(self, width: int, reach_over: bool) -> None:
        """Add the tables of the next width; `reach_over` if a left child's tokens may stand before it."""
        for offset in sorted(self.prefix_tokens, key=prefix_height):
            self._add_prefix(offset, width)
        begin = self._chain_begin(width)
        self.ahead[width] = self.usage.following @ begin
        if reach_over:
            right = self.usage.chain.flatten(1, 2) @ begin  # [B, C·d, starts]
            self.right[width] = right.view(*self.usage.chain.shape[:3], right.shape[2])

    def count(self, n: int) -> Float[Tensor, "B windows"]:
        """Return the expected number of each window of n columns."""
        windows = self.columns - n + 1
        inside = [_product(windows, (self.chain_tokens, 0), (self.ahead[n - 1], 1))]
        for (offset, width), end in self.end.items():
            if offset > 0 and 0 < width < n:
                over = self.right[n - 1 - width][:, :, offset]
                inside.append(_product(windows, (end, 0), (self.chain_tokens, width), (over, width + 1)))
        total = (self.usage.chain_use.unsqueeze(2) * sum(inside)).sum(1)
        for offset, tokens in self.prefix_tokens.items():
            if prefix_height(offset) > 0:
                below = self._split(offset, n, self.end, self.begin)
            else:
                below = [tokens] if n == 1 else []  # a leaf is the top of no wider window
            if below:
                total = total + (self.usage.prefix_use[:, :, offset, None] * sum(below)).sum(1)
        return total

    def _add_prefix(self, offset: int, width: int) -> None:
        """Add the tables of a prefix node; those of its descendants are complete up to this width."""
        key = (offset, width)
        if prefix_height(offset) == 0:
            if width == 1:
                self.whole[key] = self.begin[key] = self.end[key] = self.prefix_tokens[offset]
            return
        whole = self._split(offset, width, self.whole, self.whole)
        begin = self._split(offset, width, self.whole, self.begin)
        end = self._split(offset, width, self.end, self.whole)
        for number, rule in enumerate(self.usage.tree.prefix_rules()):
            if rule.parent == offset:
                weight = self.usage.prefix[:, :, number, None]
                if (first := self.begin.get((rule.left, width))) is not None:
                    begin.append(weight * first)
                if (final := self.end.get((rule.right, width))) is not None:
                    end.append(weight * final)
        for table, terms in ((self.whole, whole), (self.begin, begin), (self.end, end)):
            if terms:
                table[key] = sum(terms[1:], start=terms[0])

    def _split(self, offset: int, width: int, before: Parts, after: Parts) -> list[Tensor]:
        """Return the terms of `Σ_r ρ_r Σ_u before_x(s_<u) · p(s_u) · after_y(s_>u)` of a prefix node."""
        terms, starts = [], self.columns - width + 1
        for number, rule in enumerate(self.usage.tree.prefix_rules()):
            if rule.parent != offset:
                continue
            for u in range(width):
                left, right = (rule.left, u), (rule.right, width - 1 - u)
                if left in before and right in after:
                    token = (self.prefix_tokens[offset], u)
                    term = _product(starts, token, (before[left], 0), (after[right], u + 1))
                    terms.append(self.usage.prefix[:, :, number, None] * term)
        return terms

    def _chain_begin(self, width: int) -> Float[Tensor, "B C starts"]:
        """Return the probability that what a main-chain node derives begins with each window."""
        starts, terms = self.columns - width + 1, []
        for (offset, own), whole in self.whole.items():
            if own < width:
                right = self.right[width - 1 - own][:, :, offset]
                terms.append(_product(starts, (self.chain_tokens, own), (whole, 0), (right, own + 1)))
        terms += [
            self.usage.left[:, :, offset, None] * first
            for offset in self.prefix_tokens
            if (first := self.begin.get((offset, width))) is not None
        ]
        return sum(terms[1:], start=terms[0])


def _product(starts: int, *factors: tuple[Tensor | None, int]) -> Tensor:
    """Multiply tables, each from its own first column on; None is 1."""
    known = [table.narrow(2, first, starts) for table, first in factors if table is not None]
    return reduce(torch.mul, known)


def _probabilities(logs: Tensor, legal: Bool[Tensor, "..."]) -> Tensor:
    """Exponentiate, in single precision at least; masked before, so that NaN in padding has gradient 0."""
    exact = logs.to(torch.promote_types(logs.dtype, torch.float32))
    return torch.where(legal & (exact > LOWEST_LOG), exact, NEG_INF).exp()


def _by_block(usage: RuleUsage, tokens: Float[Tensor, "B m N"]) -> Float[Tensor, "B C d N"]:
    """Arrange probabilities by main-chain node, its prefix tree's offsets before it; the root has none."""
    chances = _probabilities(tokens, usage.emitting.unsqueeze(2))
    block = usage.tree.block
    padded = torch.constant_pad_nd(chances[:, 1:], (0, 0, block - 1, 0))
    return padded.view(len(tokens), usage.tree.chain_length, block, tokens.shape[2])


def _prefix_use(
    tree: SupportTree, chosen: Float[Tensor, "B C d"], rules: Float[Tensor, "B C R"]
) -> Float[Tensor, "B C d"]:
    """Return how probable every prefix node is to be used, if `chosen` is its chance to be a left child."""
    use = list(chosen.unbind(2))
    use[0] = torch.zeros_like(use[0])
    order = sorted(enumerate(tree.prefix_rules()), key=lambda pair: -prefix_height(pair[1].parent))
    for number, rule in order:  # parents before their children
        share = use[rule.parent] * rules[:, :, number]
        use[rule.right] = use[rule.right] + share
        if rule.left > 0:
            use[rule.left] = use[rule.left] + share
    return torch.stack(use, 2)
