"""Constraints on a text that is translated in pieces, and what they leave in a translation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pcfgnat.decoding import DecodingError, Request, Strategy
from pcfgnat.decoding.constraints import Clause, Constraints
from pcfgnat.decoding.structured import ByLength
from pcfgnat.grammar.repeats import repeated_words
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.text.surfaces import Surfaces, is_word_character

# how much a phrase costs in each piece, in nats; inf where it is impossible
Costs = Callable[[str], Sequence[float]]


class UnsatisfiedError(DecodingError):
    """Constraints that cannot be fulfilled, where they must be."""


def piece_constraints(constraints: Constraints, pieces: Sequence[str], costs: Costs) -> list[Constraints]:
    """Return what is asked of each piece of a text.

    The first piece has the prefix. What is forbidden is forbidden in all, and terms apply where a piece has
    them. A required phrase is asked of the piece in which it costs least. Characters are shared out by the
    pieces' lengths, with a space between pieces.
    """
    if len(pieces) == 1:
        return [constraints]
    wanted: list[list[str]] = [[] for _ in pieces]
    for phrase in constraints.require:
        own = costs(phrase)
        wanted[min(range(len(pieces)), key=own.__getitem__)].append(phrase)
    shares = _shares(constraints.max_characters, pieces)
    return [
        replace(
            constraints,
            require=tuple(own),
            prefix=constraints.prefix if number == 0 else "",
            max_characters=share,
        )
        for number, (own, share) in enumerate(zip(wanted, shares, strict=True))
    ]


def forced_pieces(ids: Sequence[int], clauses: Sequence[Clause], surfaces: Surfaces) -> tuple[int, ...]:
    """Return which tokens belong to phrases that were asked for, counted behind bos."""
    owners: list[int] = []
    text = ""
    for place, token in enumerate(ids[1:-1]):
        for character in surfaces.texts[token]:
            if character == " " and (not text or text[-1] == " "):
                continue
            text += character
            owners.append(place)
    found: set[int] = set()
    for clause in clauses:
        phrase = surfaces.spelled(clause.text)
        if clause.kind == "prefix" and text.startswith(phrase):
            found.update(owners[: len(phrase)])
        if clause.kind == "require":
            found.update(*(owners[start : start + len(phrase)] for start in _places(text, phrase)))
    return tuple(sorted(found))


def repeat_notes(strategy: Strategy, request: Request, best: Hypothesis) -> tuple[str, ...]:
    """Return why a translation has repeated words though `no_repeat` is on; nothing if it has none."""
    if not isinstance(strategy, ByLength) or not strategy.no_repeat:
        return ()
    starts = frozenset(best.ids) if request.word_starts is None else request.word_starts
    if not repeated_words(best.ids, starts):
        return ()
    return ("words are repeated in spite of no_repeat: nothing without was found",)


def raise_unsatisfied(source: str, unmet: Sequence[str]) -> None:
    """Raise an error if anything is missing."""
    if unmet:
        start = source if len(source) <= 60 else f"{source[:60]}…"
        raise UnsatisfiedError(f"cannot {', '.join(unmet)} in the translation of {start!r}")


def _shares(characters: int | None, pieces: Sequence[str]) -> list[int | None]:
    if characters is None:
        return [None] * len(pieces)
    room, whole = max(characters - len(pieces) + 1, 0), sum(map(len, pieces))
    return [max(1, room * len(piece) // whole) for piece in pieces]


def _places(text: str, phrase: str) -> list[int]:
    """Return where a phrase stands as whole words."""
    found, start = [], text.find(phrase)
    while start >= 0:
        stop = start + len(phrase)
        before, after = text[start - 1 : start] if start else "", text[stop : stop + 1]
        if not _goes_on(before, phrase[0]) and not _goes_on(phrase[-1], after):
            found.append(start)
        start = text.find(phrase, start + 1)
    return found


def _goes_on(left: str, right: str) -> bool:
    return bool(left and right) and is_word_character(left) and is_word_character(right)
