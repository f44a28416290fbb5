"""What a text must be like, as automata over its characters, and these over tokens.

They read the text itself: a phrase is found however the text is cut into tokens. Leading, trailing and
repeated spaces count for nothing, as in the text that a tokenizer writes. A phrase that begins or ends with a
word character begins or ends where a word does: `Haus` is in `das Haus.`, and not in `Haustür`.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from pcfgnat.grammar.automaton import DEAD
from pcfgnat.grammar.class_automaton import ClassAutomaton
from pcfgnat.text.surfaces import Surfaces, is_word_character

SPACE, WORD, MARK = " ", "w", "."  # of characters that no phrase has, one stands for all of its kind

State = TypeVar("State", bound=Hashable)
Step = Callable[[State, str], State | None]


@dataclass(frozen=True)
class _Progress:
    """How far a search for phrases has come.

    found:    phrases before the current one
    matched:  how many characters of it may just have been read
    previous: the kind of the last character; the text's beginning is like a space
    """

    found: int = 0
    matched: frozenset[int] = frozenset()
    previous: str = SPACE


class _Phrases:
    """Phrases that stand in a text one after the other, without overlap."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self.phrases = phrases

    def step(self, state: _Progress, character: str) -> _Progress:
        """Return the progress after one more character."""
        kind = _kind(character)
        if state.found == len(self.phrases) or kind == state.previous == SPACE:
            return state
        if kind != WORD and self._is_whole(state):
            state = _Progress(state.found + 1, frozenset(), state.previous)
            if state.found == len(self.phrases):
                return _Progress(state.found)
        phrase = self.phrases[state.found]
        matched = {n + 1 for n in state.matched if n < len(phrase) and phrase[n] == character}
        if phrase[0] == character and not (kind == WORD == state.previous):
            matched.add(1)
        if len(phrase) in matched and _kind(phrase[-1]) != WORD:
            last = state.found + 1 == len(self.phrases)
            return _Progress(state.found + 1) if last else _Progress(state.found + 1, frozenset(), kind)
        return _Progress(state.found, frozenset(matched), kind)

    def is_found(self, state: _Progress) -> bool:
        """Return whether a text that ends here has all phrases."""
        return state.found + self._is_whole(state) == len(self.phrases)

    def _is_whole(self, state: _Progress) -> bool:
        return state.found < len(self.phrases) and len(self.phrases[state.found]) in state.matched


def contains(phrases: Sequence[str], surfaces: Surfaces) -> ClassAutomaton:
    """Accept texts that have all phrases, in this order and without overlap."""
    search = _Phrases([_checked(phrase, surfaces) for phrase in phrases])
    return _over_tokens("".join(search.phrases), _Progress(), search.step, search.is_found, surfaces)


def lacks(phrase: str, surfaces: Surfaces) -> ClassAutomaton:
    """Accept texts that do not have a phrase."""
    search = _Phrases([_checked(phrase, surfaces)])

    def step(state: _Progress, character: str) -> _Progress | None:
        following = search.step(state, character)
        return None if following.found else following

    return _over_tokens(
        search.phrases[0], _Progress(), step, lambda state: not search.is_found(state), surfaces
    )


def begins(prefix: str, surfaces: Surfaces) -> ClassAutomaton:
    """Accept texts that begin with these characters; their last word goes on unless a space follows it."""
    wanted = _checked(prefix, surfaces) + (SPACE if prefix[-1].isspace() else "")

    def step(read: int, character: str) -> int | None:
        if read == len(wanted):
            return read
        if character == SPACE and (read == 0 or wanted[read - 1] == SPACE):
            return read
        return read + 1 if wanted[read] == character else None

    return _over_tokens(wanted, 0, step, lambda read: read >= len(wanted.rstrip()), surfaces)


def at_most(characters: int, surfaces: Surfaces) -> ClassAutomaton:
    """Accept texts of at most so many characters."""

    def step(state: tuple[int, bool], character: str) -> tuple[int, bool] | None:
        count, pending = state  # a space counts when something follows it
        if character == SPACE:
            return count, count > 0
        count += 1 + pending
        return (count, False) if count <= characters else None

    return _over_tokens("", (0, False), step, lambda _: True, surfaces)


def _checked(phrase: str, surfaces: Surfaces) -> str:
    if not (spelled := surfaces.spelled(phrase)):
        raise ValueError(f"a phrase must have at least one character, got {phrase!r}")
    return spelled


def _kind(character: str) -> str:
    return SPACE if character == SPACE else WORD if is_word_character(character) else MARK


def _over_tokens(
    relevant: str, start: State, step: Step[State], accepts: Callable[[State], bool], surfaces: Surfaces
) -> ClassAutomaton:
    """Return an automaton over tokens that does what `step` does with their characters, one by one."""
    own = sorted(set(relevant) - {SPACE})
    examples = [SPACE, _example(WORD, own), _example(MARK, own), *own]
    table, accepting = _explored(start, examples, step, accepts)
    dead = len(table)
    whole = np.where(table == DEAD, dead, table)
    whole = np.vstack([whole, np.full(len(examples), dead)])  # the dead end is a state here
    changes = _Changes(whole)
    classes = surfaces.trie.fold(0, _symbols(own, surfaces), changes.after)
    kinds, classes = np.unique(classes, return_inverse=True)
    over_classes = np.stack([changes.known[kind][:dead] for kind in kinds.tolist()], axis=1)
    over_classes = np.where(over_classes == dead, DEAD, over_classes)
    return ClassAutomaton(classes.reshape(-1), over_classes, accepting).minimal()


class _Changes:
    """What texts do to all states at once, each such change with a number; 0 is that of the empty text."""

    def __init__(self, table: np.ndarray) -> None:
        self.table = table
        self.known = [np.arange(len(table))]
        self._numbers = {self.known[0].tobytes(): 0}
        self._following: dict[tuple[int, int], int] = {}

    def after(self, change: int, symbol: int) -> int:
        """Return the number of a change that is followed by one more symbol."""
        if (change, symbol) not in self._following:
            states = self.table[self.known[change], symbol]
            number = self._numbers.setdefault(states.tobytes(), len(self.known))
            if number == len(self.known):
                self.known.append(states)
            self._following[change, symbol] = number
        return self._following[change, symbol]


def _symbols(own: Sequence[str], surfaces: Surfaces) -> np.ndarray:
    """Return the symbol of each character of a vocabulary: its kind, or its own if a phrase has it."""
    symbols = _kinds(surfaces).copy()
    places = {character: place for place, character in enumerate(surfaces.trie.characters)}
    for number, character in enumerate(own, start=3):
        if character in places:
            symbols[places[character]] = number
    return symbols


@lru_cache(maxsize=8)
def _kinds(surfaces: Surfaces) -> np.ndarray:
    numbers = {SPACE: 0, WORD: 1, MARK: 2}
    return np.array([numbers[_kind(character)] for character in surfaces.trie.characters], dtype=np.int64)


def _example(kind: str, own: Sequence[str]) -> str:
    """Return a character of a kind that is none of these."""
    pool = range(0x400, 0x2000) if kind == WORD else range(0x2200, 0x2C00)  # more than a phrase has
    free = (character for character in map(chr, pool) if _kind(character) == kind and character not in own)
    return str(next(free))


def _explored(
    start: State, examples: Sequence[str], step: Step[State], accepts: Callable[[State], bool]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of all states that can be reached, and which of them accept."""
    index, rows, waiting = {start: 0}, list[list[int]](), [start]
    for state in waiting:  # grows while it is read
        row = []
        for character in examples:
            following = step(state, character)
            if following is not None and following not in index:
                index[following] = len(index)
                waiting.append(following)
            row.append(DEAD if following is None else index[following])
        rows.append(row)
    return np.array(rows, dtype=np.int64), np.array([accepts(state) for state in index])
