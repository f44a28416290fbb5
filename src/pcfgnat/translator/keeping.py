"""What a translation must not lose: numbers, addresses, tags, slots, emoji and characters unknown to a model.

What the vocabulary can spell is required of the translation. What it cannot is replaced in the source: names
and addresses by numbers, which stand in for them and are required instead; tags, emoji and signs are taken
out and put back between the same words, counted by their share of the sentence.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from pcfgnat.text.surfaces import Surfaces

EMOJI = r"\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff"
PATTERNS = (
    ("name", r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]}'»”]"),
    ("name", r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    ("mark", r"</?[A-Za-z][^<>]*>"),
    ("name", r"\$?\{[^{}\s]*\}|%(?:\(\w+\))?[sdif](?!\w)"),
    ("mark", rf"[{EMOJI}][{EMOJI}\ufe0f\u200d]*"),
    ("number", r"(?<![\w])\d+(?:[.,:/-]\d+)*(?![\w])"),
    ("word", r"\w[\w\u0300-\u036f]*(?:['\u2019-]\w+)*"),
    ("sign", r"[^\w\s]"),
)  # fmt: skip
AWKWARD = re.compile("|".join(f"(?P<g{number}>{pattern})" for number, (_, pattern) in enumerate(PATTERNS)))
FIRST_STAND_IN, DIGITS = 7013, "0123456789"
CLOSING = re.compile(r"[.!?…,;:\"'“”»)\]]*$")


@dataclass(frozen=True)
class Item:
    """Something of a source that must survive; a mark is not a word of the sentence."""

    kind: Literal["number", "name", "mark"]
    text: str
    start: int

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    def found_in(self, text: str) -> int:
        """Return how often a text has it; numbers may be written as another language does."""
        if self.kind != "number":
            return text.count(self.text)
        digits = [re.sub(r"\D", "", match) for match in re.findall(r"\d+(?:[.,:/\u00a0 -]\d+)*", text)]
        return digits.count(re.sub(r"\D", "", self.text))


@dataclass(frozen=True)
class Mark:
    """Something to put back behind a share of all words; it may be joined to a neighbour, as in `<b>old`."""

    text: str
    share: float
    joined_left: bool
    joined_right: bool


@dataclass(frozen=True)
class Substitution:
    """A source in which nothing is left that cannot be spelled, what to ask for, and how to undo it."""

    text: str
    required: tuple[str, ...]
    stand_ins: tuple[tuple[str, Mark], ...]  # what is required, and what to write for it
    marks: tuple[Mark, ...]

    def undone(self, translation: str) -> str:
        """Put everything back; what is missing after all goes where it stood in the source."""
        marks = list(self.marks)
        for number, mark in self.stand_ins:
            if number in translation:
                translation = translation.replace(number, mark.text, 1)
            else:
                marks.append(mark)
        words = translation.split()
        size = len(words)
        for mark in sorted(marks, key=lambda mark: -mark.share):  # from the end, so that places stay
            _insert(words, round(mark.share * size), mark)
        return " ".join(words)


def awkward_items(source: str, surfaces: Surfaces) -> list[Item]:
    """Return what must survive, in order. Numbers of one digit are not among it: words may replace them."""
    return list(_items(source, surfaces))


def lost_items(items: Sequence[Item], translation: str) -> list[Item]:
    """Return the items that a translation has less often than its source."""
    wanted = Counter((item.kind, item.text) for item in items)
    return [item for item in items if item.found_in(translation) < wanted[item.kind, item.text]]


def substituted(source: str, items: Sequence[Item], translation: str, surfaces: Surfaces) -> Substitution:
    """Return a source with stand-ins for what cannot be spelled; `translation` is the one that lost items."""
    text, position = "", 0
    stand_ins, marks = list[tuple[str, Mark]](), list[Mark]()
    numbers = (str(number) for number in count(FIRST_STAND_IN, 6) if str(number) not in source)
    places = _Places.of(source, items)
    for item in items:
        text += source[position : item.start]
        position = item.stop
        mark = places.mark(item)
        if item.kind == "mark":
            marks.append(mark)
        elif surfaces.can_keep(item.text):
            written = _as_written(item, translation)
            stand_ins.append((written, replace(mark, text=written)))
            text += item.text
        elif surfaces.can_spell(DIGITS):
            stand_ins.append((next(numbers), mark))
            text += stand_ins[-1][0]
        else:
            marks.append(mark)
    whole = " ".join((text + source[position:]).split())
    required = tuple(dict.fromkeys(number for number, _ in stand_ins))
    return Substitution(whole, required, tuple(stand_ins), tuple(marks))


def _items(source: str, surfaces: Surfaces) -> Iterator[Item]:
    for match in AWKWARD.finditer(source):
        kind, own = PATTERNS[int((match.lastgroup or "g0")[1:])][0], match[0]
        if kind == "number" and sum(character.isdecimal() for character in own) > 1:
            yield Item("number", own, match.start())
        elif kind == "name":
            yield Item("name", own, match.start())
        elif kind == "mark":
            yield Item("mark", own, match.start())
        elif kind in ("word", "sign") and not surfaces.can_spell(own):
            yield Item("name" if kind == "word" else "mark", own, match.start())


def _as_written(item: Item, translation: str) -> str:
    """Return a number as the translation has it, if it does."""
    if item.kind == "number" and item.found_in(translation):
        found = re.findall(r"\d+(?:[.,:/-]\d+)*", translation)
        return next((own for own in found if Item("number", own, 0).found_in(item.text)), item.text)
    return item.text


@dataclass(frozen=True)
class _Places:
    """Where the words of a source stand, marks left out, and between which characters it says anything."""

    source: str
    word_starts: list[int]
    first: int
    last: int

    @classmethod
    def of(cls, source: str, items: Sequence[Item]) -> "_Places":
        """Look at a source once, for all its items."""
        plain, position = list[str](), 0
        for item in items:
            if item.kind == "mark":
                plain += [source[position : item.start], " " * len(item.text)]
                position = item.stop
        words = re.finditer(r"\S+", "".join(plain) + source[position:])
        first = len(source) - len(source.lstrip())
        return cls(source, [word.start() for word in words], first, len(source.rstrip(" \t.!?…,;:")))

    def mark(self, item: Item) -> Mark:
        """Return where an item belongs."""
        before = bisect_left(self.word_starts, item.start)
        share = min(1.0, before / max(1, len(self.word_starts)))
        share = 0.0 if item.start <= self.first else 1.0 if item.stop >= self.last else share
        left, right = self.source[item.start - 1 : item.start], self.source[item.stop : item.stop + 1]
        return Mark(item.text, share, not (left or " ").isspace(), not (right or " ").isspace())


def _insert(words: list[str], place: int, mark: Mark) -> None:
    """Put a mark between words, joined to one of them where it was."""
    if mark.joined_left and not mark.joined_right and place > 0:
        words[place - 1] += mark.text
    elif mark.joined_right and place < len(words):
        words[place] = mark.text + words[place]
    elif mark.joined_right and place == len(words) and words:  # before the full stop
        end = CLOSING.search(words[-1])
        cut = end.start() if end else len(words[-1])
        glue = "" if mark.joined_left else " "
        words[-1] = f"{words[-1][:cut]}{glue}{mark.text}{words[-1][cut:]}"
    else:
        words.insert(place, mark.text)
