"""What a model knows before it decodes a sentence: tokens and rules of every node, as plain arrays."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from pcfgnat.grammar.support_tree import SupportTree


@dataclass(frozen=True)
class LatticeScores:
    """Log-probabilities of one sentence, with the k best tokens of each of m decoder states.

    In a `pcfg` state i is symbol i, and `chain` and `prefix` are arranged as in `RuleScores`. In a `dag`
    state i is vertex i, `chain[i, 0, j]` is its transition to vertex j, and there are no prefix rules; as a
    tree of depth 0 it has vertex i as symbol i + 1.
    """

    kind: Literal["pcfg", "dag"]
    prefix_depth: int
    top_ids: Int[ndarray, "m k"]
    top_log_probs: Float[ndarray, "m k"]
    chain: Float[ndarray, "C d C"]
    prefix: Float[ndarray, "C R"]

    def __post_init__(self) -> None:
        support, states = self.support, len(self.top_ids)
        expected = support.num_nodes - self.first_symbol
        if states != expected:
            raise ValueError(
                f"a {self.kind} of {len(self.chain)} chain nodes has {expected} states, got {states}"
            )
        if self.chain.shape[1] != support.block or self.prefix.shape[1] != len(support.prefix_rules()):
            raise ValueError(
                f"prefix trees of depth {self.prefix_depth} have {support.block} left children and "
                f"{len(support.prefix_rules())} rules, got {self.chain.shape[1]} and {self.prefix.shape[1]}"
            )

    @property
    def support(self) -> SupportTree:
        """Symbols and rules."""
        return SupportTree(len(self.chain), self.prefix_depth)

    @property
    def first_symbol(self) -> int:
        """Symbol of state 0."""
        return 1 if self.kind == "dag" else 0

    def reach(self) -> Float[ndarray, "n"]:
        """Return for each symbol the probability that a derivation uses it; that of symbol 0 is 0."""
        support = self.support
        chain = np.exp(self.chain.astype(np.float64))
        prefix = np.exp(self.prefix.astype(np.float64))
        on_chain = np.zeros(support.chain_length)
        on_chain[0] = 1.0
        for k in range(support.chain_length):
            on_chain += on_chain[k] * chain[k].sum(0)
        inside = np.zeros((support.chain_length, support.block))  # by offset in each prefix tree; 0 is ε
        inside[:, 1:] = on_chain[:, None] * chain.sum(2)[:, 1:]
        rules = sorted(
            enumerate(support.prefix_rules()), key=lambda pair: -(pair[1].parent & -pair[1].parent)
        )  # parents before their children
        for i, rule in rules:
            share = inside[:, rule.parent] * prefix[:, i]
            inside[:, rule.right] += share
            if rule.left:
                inside[:, rule.left] += share
        reach = np.zeros(support.num_nodes)
        for node in range(1, support.num_nodes):
            k, offset = support.locate(node)
            reach[node] = on_chain[k] if offset == support.block else inside[k, offset]
        return np.clip(reach, 0.0, 1.0)
