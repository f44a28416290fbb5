"""No word twice in a row, where words may have several tokens: constraints are added as they are violated."""

from collections.abc import Callable, Container, Sequence
from itertools import pairwise

from pcfgnat.grammar.automaton import MAX_STATES, Automaton, Phrase, phrase_automaton
from pcfgnat.grammar.search import Hypothesis

MAX_ROUNDS = 16


class _EveryToken:
    def __contains__(self, _token: object) -> bool:
        return True


EVERY_TOKEN: Container[int] = _EveryToken()  # every token begins a word


class RepeatsRemainError(ValueError):
    """A search that was given up before repeats were gone."""


def repeated_words(ids: Sequence[int], starts: Container[int]) -> list[Phrase]:
    """Return each word, as its tokens, that the next word begins with.

    A word goes from a token of `starts` to the one before the next; tokens before the first are no word.
    """
    bounds = [position for position, token in enumerate(ids) if token in starts]
    words = [tuple(ids[first:stop]) for first, stop in pairwise([*bounds, len(ids)])]
    return [word for word, following in pairwise(words) if following[: len(word)] == word]


def best_without_repeats(
    search: Callable[[Automaton], Hypothesis | None],
    starts: Container[int],
    required: Sequence[Phrase] = (),
    forbidden: Sequence[Phrase] = (),
    max_rounds: int = MAX_ROUNDS,
) -> Hypothesis | None:
    """Return the best sentence in which no word begins with the whole word before it; None if there is none.

    `search` returns the best sentence that an automaton accepts, or None. Repeats in its answer are forbidden
    and it is asked again, until there are none. Every round searches more sentences than are allowed: so the
    first answer without repeats is the best of those that are.
    """
    unwanted = list(forbidden)
    for _ in range(max_rounds):
        found = search(phrase_automaton(required, unwanted))
        if found is None:
            return None
        repeats = repeated_words(found.ids, starts)
        if not repeats:
            return found
        unwanted += [word + word for word in repeats]
        if (states := 1 + sum(map(len, unwanted))) > MAX_STATES and not required:
            raise RepeatsRemainError(f"repeated words must need at most {MAX_STATES} states, got {states}")
    raise RepeatsRemainError(f"repeated words must be gone after {max_rounds} rounds, got {unwanted[-1]}")
