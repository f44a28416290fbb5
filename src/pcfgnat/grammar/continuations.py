"""The best derivation of every length under constraints: grammar × automaton, by the compiled kernels.

One table answers for every length, from every state: it is computed from the end of the sentence, so that any
prefix may be joined to it (`forced_prefix.py`). Exact over all trees and the whole vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.block_plan import BlockPlan, block_plan
from pcfgnat.grammar.class_automaton import ClassAutomaton
from pcfgnat.grammar.kernels.continuations import NO_TOKEN, fill_continuations, trace_continuation
from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.grammar.tokens import TokenCandidates


@dataclass(frozen=True)
class SentenceRules:
    """Rules of one sentence, in the layout of a batch: what lies beyond `chain_length` is never looked at."""

    chain: Float[np.ndarray, "C d C"]
    prefix: Float[np.ndarray, "C R"]
    chain_length: int

    def __post_init__(self) -> None:
        if not 2 <= self.chain_length <= len(self.chain):
            raise ValueError(f"chain_length must be in 2 … {len(self.chain)}, got {self.chain_length}")
        rules = len(self.support.prefix_rules())
        if self.prefix.shape != (expected := (len(self.chain), rules)):
            raise ValueError(f"prefix must have shape {expected}, got {self.prefix.shape}")

    @property
    def support(self) -> SupportTree:
        """Symbols and rules."""
        return SupportTree(self.chain_length, self.chain.shape[1].bit_length() - 1)

    @property
    def plan(self) -> BlockPlan:
        """Return the order of emissions inside a block."""
        return block_plan(self.support.prefix_depth)

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        """Call a kernel that takes contiguous rules and the states of a block first."""
        plan = self.plan
        chain = np.ascontiguousarray(self.chain)
        prefix = np.ascontiguousarray(self.prefix, dtype=chain.dtype)
        moves = (plan.offsets, plan.lefts, plan.moves, plan.first)
        return kernel(chain, prefix, self.chain_length, *moves, *arguments)


@dataclass(frozen=True)
class Continuations:
    """The best continuation of every length from every state of one sentence's grammar and an automaton.

    best:   `[a, x, q, r]` r tokens from state x of main-chain node a's block and automaton state q on
    first:  the first token of that, where repeats are ruled out
    second: the best continuation with another first token
    """

    rules: SentenceRules
    candidates: TokenCandidates
    automaton: Automaton | ClassAutomaton
    best: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @property
    def max_length(self) -> int:
        """Return the length of the longest sentence that the tables know."""
        return int(self.best.shape[3]) - 1

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the three tables."""
        return self.best, self.first, self.second

    @property
    def scores(self) -> Float[np.ndarray, "S"]:
        """Return the score of the best sentence of every length from 0 on; -inf where there is none."""
        return np.array(self.best[0, self.rules.plan.bottoms[0], 0])

    def hypothesis(self, length: int) -> Hypothesis:
        """Return the best sentence of a length with its tree."""
        if not 0 <= length <= self.max_length or self.scores[length] == -np.inf:
            raise ValueError(f"no sentence of {length} tokens fulfils the constraints")
        nodes, ids, scores = self.follow(0, int(self.rules.plan.bottoms[0]), 0, length)
        return derived(self.rules, nodes, ids, scores)

    def follow(
        self, node: int, state: int, automaton_state: int, length: int, avoid: int = NO_TOKEN
    ) -> tuple[list[int], list[int], list[float]]:
        """Return symbols, tokens and token scores of the best continuation from a state on.

        It does not begin with the token `avoid`.
        """
        symbols, columns = np.empty(length, dtype=np.int64), np.empty(length, dtype=np.int64)
        state_now = (node, state, automaton_state, length, avoid)
        problem = _arguments(self.rules, self.candidates, self.automaton)
        self.rules.call(trace_continuation, *problem, *self.tables, *state_now, symbols, columns)
        ids, scores = self.candidates.ids[symbols, columns], self.candidates.scores[symbols, columns]
        return symbols.tolist(), ids.tolist(), scores.tolist()


def best_continuations(
    rules: SentenceRules, candidates: TokenCandidates, automaton: Automaton | ClassAutomaton, max_length: int
) -> Continuations:
    """Find the best continuation of up to `max_length` tokens from every state.

    Takes `C²/2 · d · Q · N` steps, Q the automaton's states, and memory for `C · X · Q · N` numbers, X the
    states of a block (1, 3, 10 and 35 at depths 0 to 3).
    """
    least, found = automaton.table.shape[1], candidates.ids.shape[1]
    if found < least:
        raise ValueError(f"candidates must have at least {least} columns, got {found}")
    shape = (rules.chain_length, rules.plan.states + 1, len(automaton.table), max_length + 1)
    pairs = shape if candidates.no_repeats else (0, 0, 0, 0)
    tables = (np.empty(shape), np.empty(pairs, dtype=np.int64), np.empty(pairs))
    rules.call(fill_continuations, *_arguments(rules, candidates, automaton), *tables)
    return Continuations(rules, candidates, automaton, *tables)


def derived(rules: SentenceRules, nodes: list[int], ids: list[int], token_scores: list[float]) -> Hypothesis:
    """Return the hypothesis with these symbols and tokens."""
    tree = ParseTree(rules.support, tuple(nodes), tuple(ids)).scored(rules.chain, rules.prefix, token_scores)
    return Hypothesis(tree.tokens, tree.log_prob, tree.nodes, tree)


def _arguments(
    rules: SentenceRules, candidates: TokenCandidates, automaton: Automaton | ClassAutomaton
) -> tuple[np.ndarray | bool, ...]:
    """Return what both kernels take behind the rules."""
    tokens = (candidates.ids, candidates.scores, candidates.may_repeat)
    return (rules.plan.entries, *tokens, automaton.table, automaton.accepting, candidates.no_repeats)
