"""Automata over a whole vocabulary, whose tokens fall into a few classes, and their products."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Int64

from pcfgnat.grammar.automaton import DEAD, Automaton
from pcfgnat.grammar.tokens import TokenCandidates, TokenRules


class TooManyStatesError(ValueError):
    """A product of automata that is too large to be searched."""


@dataclass(frozen=True, eq=False)
class ClassAutomaton:
    """Reads a sentence token by token, from state 0 on; tokens of one class do the same in every state.

    classes:   the class of every token
    table:     the next state by state and class, `DEAD` for a dead end
    accepting: the states in which a sentence may end
    """

    classes: Int64[np.ndarray, "V"]
    table: Int64[np.ndarray, "Q K"]
    accepting: Bool[np.ndarray, "Q"]

    @classmethod
    def from_tokens(cls, automaton: Automaton, vocabulary: int) -> "ClassAutomaton":
        """Return an automaton over a few tokens as one over all: each is a class, the others are the last."""
        classes = np.full(vocabulary, len(automaton.tokens), dtype=np.int64)
        classes[list(automaton.tokens)] = np.arange(len(automaton.tokens))
        return cls(classes, automaton.table, automaton.accepting)

    def step(self, state: int, token: int) -> int:
        """Return the state after one more token; a dead end stays one."""
        return DEAD if state == DEAD else int(self.table[state, self.classes[token]])

    def accepts(self, sentence: Sequence[int]) -> bool:
        """Return whether the automaton accepts a whole sentence."""
        state = 0
        for token in sentence:
            state = self.step(state, token)
        return state != DEAD and bool(self.accepting[state])

    def minimal(self) -> "ClassAutomaton":
        """Return the smallest automaton that accepts the same: equal states and equal classes are one."""
        states = len(self.table)
        _, kinds = np.unique(self.accepting, return_inverse=True)
        block = np.append(kinds, DEAD)  # the last entry is the dead end's
        while True:
            signature = np.column_stack([block[:states], block[self.table]])
            _, fresh = np.unique(signature, axis=0, return_inverse=True)
            if fresh.max() == block[:states].max():
                break
            block[:states] = fresh.reshape(-1)
        _, first = np.unique(block[:states], return_index=True)
        rows, merged = np.unique(block[self.table[first]].T, axis=0, return_inverse=True)
        accepting = self.accepting[first]
        start = int(block[0])
        swap = np.arange(len(first))
        swap[[0, start]] = start, 0  # the first state is the start
        table = rows.T[swap]
        renamed = np.where(table == DEAD, DEAD, swap[table])
        return ClassAutomaton(merged.reshape(-1)[self.classes], renamed, accepting[swap])


def candidates_of(
    automaton: ClassAutomaton, rows: Float[np.ndarray, "m V"], symbols: Sequence[int]
) -> TokenCandidates:
    """Return the best token of every class at every symbol; `symbols` are those that emit."""
    shape = (max(symbols) + 1, automaton.table.shape[1])
    ids, scores = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
    own = np.array(symbols)
    for kind in range(shape[1]):
        members = np.flatnonzero(automaton.classes == kind)
        if len(members):
            part = rows[:, members]
            best = part.argmax(1)
            ids[own, kind] = members[best]
            scores[own, kind] = part[np.arange(len(own)), best]
    return TokenCandidates(ids, scores, np.zeros(shape, dtype=bool), TokenRules())


def product(left: ClassAutomaton, right: ClassAutomaton, max_states: int) -> ClassAutomaton:
    """Return the automaton that accepts what both accept; only what can be reached is built."""
    codes_of_pairs, classes = np.unique(
        left.classes * right.table.shape[1] + right.classes, return_inverse=True
    )
    pairs = np.column_stack(np.divmod(codes_of_pairs, right.table.shape[1]))  # K 2
    width = len(right.table)
    codes = np.zeros(1, dtype=np.int64)
    following = np.zeros((0, len(pairs)), dtype=np.int64)
    while len(following) < len(codes):
        fresh = codes[len(following) :]
        first, second = left.table[fresh // width][:, pairs[:, 0]], right.table[fresh % width][:, pairs[:, 1]]
        after = np.where((first == DEAD) | (second == DEAD), DEAD, first * width + second)
        following = np.concatenate([following, after])
        codes = np.concatenate([codes, np.setdiff1d(after[after != DEAD], codes)])
        if len(codes) > max_states:
            raise TooManyStatesError(f"constraints must need at most {max_states} states, got more")
    accepting = left.accepting[codes // width] & right.accepting[codes % width]
    return _live(classes.reshape(-1), _numbered(following, codes), accepting)


def _numbered(following: Int64[np.ndarray, "Q K"], codes: Int64[np.ndarray, "Q"]) -> Int64[np.ndarray, "Q K"]:
    """Replace codes of states by their places."""
    order = np.argsort(codes)
    places = order[np.searchsorted(codes, following.clip(min=0), sorter=order).clip(max=len(codes) - 1)]
    return np.where(following == DEAD, DEAD, places)


def _live(
    classes: Int64[np.ndarray, "V"], table: Int[np.ndarray, "Q K"], accepting: Bool[np.ndarray, "Q"]
) -> ClassAutomaton:
    """Lead to `DEAD` at once where no accepting state can be reached any more."""
    alive = np.append(accepting, False)  # the last entry is the dead end's
    while True:
        reached = alive[:-1] | alive[table].any(1)
        if (reached == alive[:-1]).all():
            break
        alive[:-1] = reached
    return ClassAutomaton(classes, np.where(alive[table], table, DEAD), accepting)
