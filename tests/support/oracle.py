"""Every derivation, one by one, in plain Python: what the dynamic programs must agree with.

Shares no code with the package but SupportTree.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pcfgnat.structures import SupportTree


@dataclass(frozen=True)
class Derivation:
    """Symbols in order of the tokens that they emit, and the rules used as (node, left, right)."""

    nodes: tuple[int, ...]
    rules: tuple[tuple[int, int, int], ...]


@lru_cache(maxsize=256)
def derivations(tree: SupportTree, node: int = 1) -> tuple[Derivation, ...]:
    """All derivations below a node, of every length."""
    if node == 0:
        return (Derivation((), ()),)
    pairs = list(tree.children(node))
    if not pairs:
        return (Derivation((node,), ()),)
    return tuple(_expand(tree, node, pairs))


def _expand(tree: SupportTree, node: int, pairs: list[tuple[int, int]]) -> Iterator[Derivation]:
    for left, right in pairs:
        for before in derivations(tree, left):
            for after in derivations(tree, right):
                yield Derivation(
                    (*before.nodes, node, *after.nodes), ((node, left, right), *before.rules, *after.rules)
                )


class GrammarOracle:
    """One sentence's grammar, as nested lists of log-probabilities in the layout of RuleScores."""

    def __init__(self, tree: SupportTree, chain: Any, prefix: Any, emit: Any) -> None:
        self.tree, self.chain, self.prefix, self.emit = tree, chain, prefix, emit

    def rule(self, node: int, left: int, right: int) -> float:
        """log P(<left, right> | node), looked up by the index conventions written out here once more."""
        d = 2**self.tree.prefix_depth
        if (node - 1) % d == 0:
            k = (node - 1) // d
            j = 0 if left == 0 else left - (node - d)
            return float(self.chain[k][j][(right - 1) // d])
        k = -(-(node - 1) // d)  # the main-chain node behind it
        start = 1 + k * d - d
        offsets = (node - start, left - start if left else 0, right - start)
        numbers = {tuple(rule): number for number, rule in enumerate(self.tree.prefix_rules())}
        return float(self.prefix[k][numbers[offsets]])

    def structure_score(self, derivation: Derivation) -> float:
        return sum(self.rule(*rule) for rule in derivation.rules)

    def score(self, derivation: Derivation, tokens: list[int]) -> float:
        emitted = zip(derivation.nodes, tokens, strict=True)
        return self.structure_score(derivation) + sum(
            float(self.emit[node][token]) for node, token in emitted
        )

    def of(self, tokens: list[int]) -> list[tuple[float, Derivation]]:
        """All derivations of a target of non-zero probability with their scores, best first."""
        found = [(self.score(d, tokens), d) for d in derivations(self.tree) if len(d.nodes) == len(tokens)]
        possible = [pair for pair in found if pair[0] > -math.inf]
        return sorted(possible, key=lambda pair: (-pair[0], pair[1].nodes))

    def log_prob(self, tokens: list[int]) -> float:
        return log_sum([score for score, _ in self.of(tokens)])

    def marginals(self, tokens: list[int]) -> list[list[float]]:
        """[m][n]: probability that a symbol emits a position."""
        total = self.log_prob(tokens)
        table = [[0.0] * len(tokens) for _ in range(self.tree.num_nodes)]
        for score, derivation in self.of(tokens):
            for position, node in enumerate(derivation.nodes):
                table[node][position] += math.exp(score - total)
        return table

    def rule_marginals(self, tokens: list[int]) -> dict[tuple[int, int, int], float]:
        total = self.log_prob(tokens)
        table: dict[tuple[int, int, int], float] = {}
        for score, derivation in self.of(tokens):
            for rule in derivation.rules:
                table[rule] = table.get(rule, 0.0) + math.exp(score - total)
        return table

    def entropy(self, tokens: list[int]) -> float:
        total = self.log_prob(tokens)
        return -sum(math.exp(score - total) * (score - total) for score, _ in self.of(tokens))

    def best_of_length(self, length: int) -> tuple[float, Derivation] | None:
        """Best derivation of a length when every symbol emits its best token."""
        found = []
        for derivation in derivations(self.tree):
            if len(derivation.nodes) == length:
                best = sum(max(float(p) for p in self.emit[node]) for node in derivation.nodes)
                found.append((self.structure_score(derivation) + best, derivation))
        return max(found, key=lambda pair: pair[0], default=None)


def log_sum(values: list[float]) -> float:
    """log Σ exp, -inf for nothing."""
    largest = max(values, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(value - largest) for value in values))
