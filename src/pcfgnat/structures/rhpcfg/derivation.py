"""Deriving from the root down, one choice of children after another: greedy, lookahead and sampling."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from pcfgnat.structures.rhpcfg.scores import RuleScores
from pcfgnat.structures.rhpcfg.support_tree import SupportTree

# (log-probabilities of the rules, sum of the children's best-token scores) -> index of the rule
Chooser = Callable[[Float[Tensor, "r"], Float[Tensor, "r"]], int]


def greedy_choice(rules: Float[Tensor, "r"], _children: Float[Tensor, "r"]) -> int:
    """Choose the most probable rule."""
    return int(rules.argmax())


def lookahead_choice(rules: Float[Tensor, "r"], children: Float[Tensor, "r"]) -> int:
    """Choose rule and child tokens together."""
    return int((rules + children).argmax())


def sample_choice(generator: torch.Generator | None) -> Chooser:
    """Choose a rule by its probability."""

    def choose(rules: Float[Tensor, "r"], _children: Float[Tensor, "r"]) -> int:
        return int(torch.multinomial(rules.double().exp(), 1, generator=generator))

    return choose


def derive(
    scores: RuleScores,
    index: int,
    support: SupportTree,
    choose: Chooser,
    token_scores: Float[Tensor, "m"] | None = None,
) -> tuple[int, ...]:
    """Derive from the root of sentence `index`; return the symbols used, in order."""
    if token_scores is None:
        token_scores = scores.emit.new_zeros(scores.emit.shape[1])
    used = []
    k = 0
    while k < support.chain_length - 1:
        lefts = 1 if k == 0 else support.block
        rules = scores.chain[index, k, :lefts, k + 1 : support.chain_length]
        right_tokens = token_scores[support.chain_node(k + 1) : support.num_nodes : support.block]
        left_tokens = token_scores.new_zeros(lefts)
        start = support.chain_node(k) - support.block
        left_tokens[1:] = token_scores[start + 1 : start + lefts]
        both = left_tokens[:, None] + right_tokens
        choice = _choose(choose, rules, both, f"main-chain node {k} of sentence {index}")
        left, right = divmod(choice, rules.shape[1])
        if left:
            offsets = _derive_prefix(scores.prefix[index, k], token_scores, start, support, choose, left)
            used += [start + offset for offset in offsets]
        used.append(support.chain_node(k))
        k += 1 + right
    return (*used, support.num_nodes - 1)


def _derive_prefix(
    prefix: Float[Tensor, "R"],
    token_scores: Float[Tensor, "m"],
    start: int,
    support: SupportTree,
    choose: Chooser,
    top: int,
) -> list[int]:
    """Derive inside one prefix tree; return the offsets used, in order."""
    all_rules = support.prefix_rules()
    used, pending = [], [top]
    while pending:
        offset = pending.pop()
        used.append(offset)
        numbers = [number for number, rule in enumerate(all_rules) if rule.parent == offset]
        if not numbers:
            continue
        children = [all_rules[number] for number in numbers]
        left = token_scores[[start + rule.left for rule in children]]
        left = torch.where(torch.tensor([rule.left > 0 for rule in children], device=left.device), left, 0.0)
        right = token_scores[[start + rule.right for rule in children]]
        rule = children[_choose(choose, prefix[numbers], left + right, f"symbol {start + offset}")]
        pending += [child for child in (rule.left, rule.right) if child]
    return sorted(used)


def _choose(choose: Chooser, rules: Tensor, children: Tensor, where: str) -> int:
    if not bool((rules > float("-inf")).any()):
        raise ValueError(f"{where} must have a rule of non-zero probability")
    return choose(rules.flatten(), children.flatten())
