"""Deriving from the root down, one choice of children after another: greedy, lookahead and sampling.

Over numpy arrays, without torch, because each choice looks at a few numbers only.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.support_tree import SupportTree

# (log-probabilities of the rules, sum of the children's best-token scores) -> index of the rule
Chooser = Callable[[Float[np.ndarray, "r"], Float[np.ndarray, "r"]], int]


def greedy_choice(rules: Float[np.ndarray, "r"], _children: Float[np.ndarray, "r"]) -> int:
    """Choose the most probable rule."""
    return int(rules.argmax())


def lookahead_choice(rules: Float[np.ndarray, "r"], children: Float[np.ndarray, "r"]) -> int:
    """Choose rule and child tokens together."""
    return int((rules + children).argmax())


def sampled_choice(generator: np.random.Generator) -> Chooser:
    """Choose a rule by its probability; weights need not sum to 1."""

    def choose(rules: Float[np.ndarray, "r"], _children: Float[np.ndarray, "r"]) -> int:
        upto = np.exp(rules.astype(np.float64) - rules.max()).cumsum()
        return int(np.searchsorted(upto, generator.random() * upto[-1], side="right"))

    return choose


def derive(
    chain: Float[np.ndarray, "C d C"],
    prefix: Float[np.ndarray, "C R"],
    support: SupportTree,
    choose: Chooser,
    token_scores: Float[np.ndarray, "m"] | None = None,
) -> tuple[int, ...]:
    """Derive from the root of a sentence whose tree is `support`; return the symbols used, in order."""
    if token_scores is None:
        token_scores = np.zeros(support.num_nodes, dtype=chain.dtype)
    used: list[int] = []
    k = 0
    while k < support.chain_length - 1:
        lefts = 1 if k == 0 else support.block
        rules = chain[k, :lefts, k + 1 : support.chain_length]
        right_tokens = token_scores[support.chain_node(k + 1) : support.num_nodes : support.block]
        left_tokens = np.zeros(lefts, dtype=token_scores.dtype)
        start = support.chain_node(k) - support.block
        left_tokens[1:] = token_scores[start + 1 : start + lefts]
        both = left_tokens[:, None] + right_tokens
        choice = _choose(choose, rules, both, f"main-chain node {k}")
        left, right = divmod(choice, rules.shape[1])
        if left:
            offsets = _derive_prefix(prefix[k], token_scores, start, support, choose, left)
            used += [start + offset for offset in offsets]
        used.append(support.chain_node(k))
        k += 1 + right
    return (*used, support.num_nodes - 1)


def _derive_prefix(
    prefix: Float[np.ndarray, "R"],
    token_scores: Float[np.ndarray, "m"],
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
        left = np.where([rule.left > 0 for rule in children], left, token_scores.dtype.type(0))
        right = token_scores[[start + rule.right for rule in children]]
        rule = children[_choose(choose, prefix[numbers], left + right, f"symbol {start + offset}")]
        pending += [child for child in (rule.left, rule.right) if child]
    return sorted(used)


def _choose(choose: Chooser, rules: np.ndarray, children: np.ndarray, where: str) -> int:
    """Choose a rule; a maximum of NaN is no way on either."""
    rules, children = rules.ravel(), children.ravel()
    if rules.max() > -np.inf:
        choice = choose(rules, children)
        if rules[choice] + children[choice] > -np.inf:
            return choice
    raise ValueError(f"{where} must have a rule of non-zero probability")
