"""Deterministic automata over tokens: which sentences a search may return."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

DEAD = -1
MAX_STATES = 256

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class Automaton:
    """Reads a sentence token by token, from state 0 on; complete, with all tokens but a few alike.

    tokens:    the ids that it tells apart
    table:     the next state by state and token; the last column is any other token, `DEAD` a dead end
    accepting: the states in which a sentence may end
    """

    tokens: tuple[int, ...]
    table: Int[np.ndarray, "Q classes"]
    accepting: Bool[np.ndarray, "Q"]

    def __post_init__(self) -> None:
        if len(set(self.tokens)) != len(self.tokens):
            raise ValueError(f"tokens must be different, got {self.tokens}")
        if self.table.shape != (len(self.accepting), len(self.tokens) + 1):
            expected = (len(self.accepting), len(self.tokens) + 1)
            raise ValueError(f"table must have shape {expected}, got {self.table.shape}")
        if not ((self.table >= DEAD) & (self.table < len(self.table))).all():
            raise ValueError(f"table must hold states in 0 … {len(self.table) - 1} or {DEAD}")

    def step(self, state: int, token: int) -> int:
        """Return the state after one more token; a dead end stays one."""
        if state == DEAD:
            return DEAD
        column = self.tokens.index(token) if token in self.tokens else len(self.tokens)
        return int(self.table[state, column])

    def accepts(self, sentence: Sequence[int]) -> bool:
        """Return whether the automaton accepts a whole sentence."""
        state = 0
        for token in sentence:
            state = self.step(state, token)
        return state != DEAD and bool(self.accepting[state])


def any_sentence() -> Automaton:
    """Return the automaton that accepts everything."""
    return Automaton((), np.zeros((1, 1), dtype=np.int64), np.ones(1, dtype=bool))


def phrase_automaton(
    required: Sequence[Sequence[int]], forbidden: Sequence[Sequence[int]] = (), max_states: int = MAX_STATES
) -> Automaton:
    """Accept the sentences with all required phrases and no forbidden one, wherever these stand or overlap.

    A state is the set of phrases seen and the longest end of the text that begins a phrase which still
    matters (Aho and Corasick 1975): at most `(1 + Σ length) · 2^required`, of which the reachable are built.
    """
    wanted, unwanted = (sorted({tuple(phrase) for phrase in phrases}) for phrases in (required, forbidden))
    if () in (*wanted, *unwanted):
        raise ValueError("a phrase must have at least one token, got an empty one")
    tokens = tuple(sorted({token for phrase in (*wanted, *unwanted) for token in phrase}))
    start: tuple[Phrase, frozenset[Phrase]] = ((), frozenset(wanted))  # the text's end, the phrases to come
    index, rows, waiting = {start: 0}, list[list[int]](), [start]
    for end, missing in waiting:  # grows while it is read
        row = []
        for token in tokens:
            text = (*end, token)
            if any(_ends_with(text, phrase) for phrase in unwanted):
                row.append(DEAD)
                continue
            left = frozenset(phrase for phrase in missing if not _ends_with(text, phrase))
            following = (_longest_beginning(text, (*left, *unwanted)), left)
            if following not in index:
                index[following] = len(index)
                waiting.append(following)
            row.append(index[following])
        if ((), missing) not in index:
            index[(), missing] = len(index)
            waiting.append(((), missing))
        rows.append([*row, index[(), missing]])
        if len(index) > max_states:
            count = len(wanted) + len(unwanted)
            raise ValueError(f"{count} phrases must need at most {max_states} states, got more")
    accepting = np.array([not missing for _, missing in index])
    return Automaton(tokens, np.array(rows, dtype=np.int64), accepting)


def _ends_with(text: Phrase, phrase: Phrase) -> bool:
    return text[len(text) - len(phrase) :] == phrase


def _longest_beginning(text: Phrase, phrases: Sequence[Phrase]) -> Phrase:
    """Return the longest end of the text that is a beginning, but not the whole, of a phrase."""
    ends = (text[start:] for start in range(len(text)))
    return next((end for end in ends if any(end == p[: len(end)] and end != p for p in phrases)), ())
