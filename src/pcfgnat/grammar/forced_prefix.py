"""Sentences with a given beginning: their best continuation, and their probability, one token after another.

A state is a value; extending it by a token returns a new one, so that a prefix can be taken back. One more
token takes `C²/2 · d` steps; the model and the table of continuations are not touched.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.automaton import DEAD
from pcfgnat.grammar.continuations import Continuations, SentenceRules, derived
from pcfgnat.grammar.kernels.continuations import NO_TOKEN
from pcfgnat.grammar.kernels.prefixes import (
    best_join,
    extend_best,
    extend_sum,
    fill_remaining,
    join_continuations,
)
from pcfgnat.grammar.search import Hypothesis


@dataclass(frozen=True, eq=False)
class ForcedPrefix:
    """The best ways to emit a prefix, to be joined with the best continuations.

    ids:             the prefix
    front:           `[a, x]` the best way there such that state x of main-chain node a's block emits next
    ended:           the best derivation of the prefix as a whole sentence
    automaton_state: where the continuations' automaton is behind the prefix
    avoid:           a token that must not follow
    came, weights:   back-pointers into the state before, and the last token's score by symbol
    """

    continuations: Continuations
    ids: tuple[int, ...]
    front: Float[np.ndarray, "C X"]
    ended: float
    automaton_state: int
    avoid: int
    previous: "ForcedPrefix | None" = None
    came: np.ndarray | None = None
    weights: np.ndarray | None = None

    @classmethod
    def start(cls, continuations: Continuations) -> "ForcedPrefix":
        """Return the empty prefix."""
        return cls(continuations, (), _root(continuations.rules), -np.inf, 0, NO_TOKEN)

    def extended(self, token: int, weights: Float[np.ndarray, "m"]) -> "ForcedPrefix":
        """Return the prefix with one more token, whose log-probability at symbol i is `weights[i]`."""
        rules, candidates = self.continuations.rules, self.continuations.candidates
        following, came = np.empty_like(self.front), np.empty(self.front.shape, dtype=np.int64)
        exact = np.ascontiguousarray(weights, dtype=np.float64)
        ended = rules.call(extend_best, rules.plan.entries, exact, self.front, following, came)
        state = self.continuations.automaton.step(self.automaton_state, token)
        avoid = token if candidates.no_repeats and token not in candidates.rules.may_repeat else NO_TOKEN
        ids = (*self.ids, token)
        return ForcedPrefix(self.continuations, ids, following, ended, state, avoid, self, came, exact)

    @property
    def scores(self) -> Float[np.ndarray, "S"]:
        """Return the score of the best sentence with this prefix of every length from 0 on."""
        table, given = self.continuations, len(self.ids)
        scores = np.full(max(table.max_length, given) + 1, -np.inf)
        if self.automaton_state != DEAD:
            if table.automaton.accepting[self.automaton_state]:
                scores[given] = self.ended
            stop = table.rules.chain_length
            longest = scores[: table.max_length + 1]
            join_continuations(
                self.front, stop, *table.tables, self.automaton_state, self.avoid, given, longest
            )
        return scores[: table.max_length + 1]

    def hypothesis(self, length: int) -> Hypothesis:
        """Return the best sentence of a length with this prefix, and its tree."""
        scores, given, table = self.scores, len(self.ids), self.continuations
        if not 0 <= length < len(scores) or scores[length] == -np.inf:
            raise ValueError(
                f"no sentence of {length} tokens has this prefix of {given} and fulfils the constraints"
            )
        stop, states = table.rules.chain_length, table.rules.plan.states
        if length == given:
            assert self.previous is not None
            node, state = stop - 1, int(table.rules.plan.bottoms[0])
            nodes, ids, emitted = self._last(node * states + state)
            return derived(table.rules, nodes, ids, emitted)
        rest = length - given
        node, state = best_join(self.front, stop, *table.tables, self.automaton_state, self.avoid, rest)
        nodes, ids, emitted = self._given(node, state)
        free = table.follow(node, state, self.automaton_state, rest, self.avoid)
        return derived(table.rules, nodes + free[0], ids + free[1], emitted + free[2])

    def continuation(self, length: int) -> tuple[int, ...]:
        """Return what follows the prefix in the best sentence of a length that has one."""
        table, rest = self.continuations, length - len(self.ids)
        stop, state = table.rules.chain_length, self.automaton_state
        node, entered = best_join(self.front, stop, *table.tables, state, self.avoid, rest)
        return tuple(table.follow(node, entered, state, rest, self.avoid)[1])

    def _given(self, node: int, state: int) -> tuple[list[int], list[int], list[float]]:
        """Return symbols, tokens and token scores of the prefix, if this state emits next."""
        if self.came is None:
            return [], [], []
        return self._last(int(self.came[node, state]))

    def _last(self, origin: int) -> tuple[list[int], list[int], list[float]]:
        """Return symbols, tokens and token scores of the prefix, if state `origin` emitted the last one."""
        symbols, scores, step = [], [], self
        plan, block = self.continuations.rules.plan, self.continuations.rules.chain.shape[1]
        while step.previous is not None:
            assert step.weights is not None
            node, state = divmod(origin, plan.states)
            symbols.append(1 + (node - 1) * block + int(plan.offsets[state]))
            scores.append(float(step.weights[symbols[-1]]))
            step = step.previous
            if step.came is not None:
                origin = int(step.came[node, state])
        return symbols[::-1], list(self.ids), scores[::-1]


@dataclass(frozen=True, eq=False)
class PrefixProbability:
    """The probability that a sentence begins with a prefix, over all trees, lengths and continuations.

    front:     `[a, x]` log-weight of all ways there such that state x of main-chain node a's block emits next
    ended:     log-probability that the prefix is the whole sentence
    remaining: `[a, x]` log-weight of all that may follow a state's token
    """

    rules: SentenceRules
    front: Float[np.ndarray, "C X"]
    ended: float
    remaining: Float[np.ndarray, "C X"]

    @classmethod
    def start(cls, rules: SentenceRules) -> "PrefixProbability":
        """Return the empty prefix."""
        front = _root(rules)
        remaining = np.empty_like(front)
        rules.call(fill_remaining, remaining)
        return cls(rules, front, -np.inf, remaining)

    def extended(self, weights: Float[np.ndarray, "m"]) -> "PrefixProbability":
        """Return the prefix with one more token, whose log-probability at symbol i is `weights[i]`."""
        following = np.empty_like(self.front)
        exact = np.ascontiguousarray(weights, dtype=np.float64)
        ended = self.rules.call(extend_sum, self.rules.plan.entries, exact, self.front, following)
        return PrefixProbability(self.rules, following, ended, self.remaining)

    @property
    def log_prob(self) -> float:
        """Return the log-probability of the sentences that begin with the prefix."""
        return float(np.logaddexp.reduce(np.append(self.front + self.remaining, self.ended)))

    def next_symbols(self) -> Float[np.ndarray, "m"]:
        """Return the probability, given the prefix, that each symbol emits the next token.

        With `p[i, v]` the probability of token v at symbol i, the next token is v with probability
        `Σ_i next_symbols[i] · p[i, v]`; what is missing from 1 is the chance that the sentence has ended.
        """
        support, plan = self.rules.support, self.rules.plan
        total = self.log_prob
        shares = np.zeros((support.chain_length, support.block + 1))
        if total > -np.inf:
            chances = np.exp(self.front + self.remaining - total)  # [C, X]
            for state, offset in enumerate(plan.offsets):
                shares[:, offset] += chances[:, state]
        root = shares[0, support.block]
        return np.concatenate([[0.0, root], shares[1:, 1:].ravel()])


def _root(rules: SentenceRules) -> Float[np.ndarray, "C X"]:
    """Return the front of the empty prefix: the root emits first."""
    front = np.full((rules.chain_length, rules.plan.states), -np.inf)
    front[0, rules.plan.bottoms[0]] = 0.0
    return front
