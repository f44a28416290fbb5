"""Elements of a passage put around the words of its translation that depend on theirs, wherever these went.

Elements stay nested as they are; those beside each other may change their order, as words do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from jaxtyping import Float

from pcfgnat.translator.influence import WORD, Influence, token_spans
from pcfgnat.translator.markup import Mark
from pcfgnat.translator.placing import ATOM, character_of
from pcfgnat.translator.translation import Candidate

VOID = frozenset({"img", "wbr"})
LEAST = 0.1  # nats: what adds less has no influence
Span = tuple[int, int]


@dataclass
class Element:
    """Tags with parts of a passage between them, or a mark alone.

    order:      number of its first mark
    parts:      numbers of the first part inside, and of the first behind it; parts lie between marks
    begun, open_ended: whether it starts before the passage, or ends behind it
    words:      where it goes: numbers of the first word inside, and of the first behind it
    """

    name: str
    order: int
    before: str
    parts: Span
    behind: str = ""
    begun: bool = False
    open_ended: bool = False
    children: list["Element"] = field(default_factory=list)
    words: Span = (0, 0)

    def holds(self, part: int) -> bool:
        """Whether a part is inside."""
        return self.parts[0] <= part < self.parts[1]


def elements_of(marks: Sequence[Mark]) -> list[Element] | None:
    """Return the elements that marks make up; None if they are not nested in each other."""
    found, unclosed = list[Element](), list[Element]()
    for order, mark in enumerate(marks):
        match = re.match(r"</?([A-Za-z][^\s/>]*)", mark.html)
        name = match[1].lower() if match else ""
        siblings = unclosed[-1].children if unclosed else found
        if mark.kind == "single" or name in VOID:
            siblings.append(Element(name, order, mark.html, (order + 1, order + 1)))
        elif mark.kind == "open":
            element = Element(name, order, mark.html, (order + 1, len(marks) + 1), open_ended=True)
            siblings.append(element)
            unclosed.append(element)
        elif unclosed:
            element = unclosed.pop()
            if element.name != name:
                return None
            element.parts, element.behind = (element.parts[0], order + 1), mark.html
            element.open_ended = False
        else:
            begun = Element(name, 0, "", (0, order + 1), mark.html, begun=True, children=found)
            found = [begun]
    return found


@dataclass(frozen=True)
class Words:
    """The words of a translation, and how much they depend on each part of its source.

    spans: their characters
    owner: the part that each depends on most; -1 for punctuation, and if it depends on none
    edges: the last part that starts where the source does, and the first that has nothing behind it
    """

    text: str
    spans: Sequence[Span]
    influence: Float[np.ndarray, "parts words"]
    owner: Sequence[int]
    edges: Span

    @classmethod
    def of(
        cls, text: str, tokens: Sequence[Span], influence: Float[np.ndarray, "parts tokens"], edges: Span
    ) -> "Words":
        """Add up what tokens depend on."""
        spans = [(match.start(), match.end()) for match in ATOM.finditer(text)]
        inside = np.array([[a < stop and b > start for start, stop in spans] for a, b in tokens])
        strength = influence @ inside.reshape(len(tokens), len(spans)).astype(float)
        best = strength.argmax(0) if spans else np.zeros(0, dtype=np.int64)
        owner = [
            int(part) if WORD.search(text[start:stop]) and strength[part, i] >= LEAST else -1
            for i, (part, (start, stop)) in enumerate(zip(best, spans, strict=True))
        ]
        return cls(text, spans, strength, owner, edges)

    def run(self, element: Element, free: Sequence[int], limits: Span) -> Span | None:
        """Return the words of an element: all if it is around the whole source; None if none is free.

        One that holds the full stop of the source holds that of the translation, if its words come last.
        """
        at_end = element.parts[1] > self.edges[1]
        if at_end and element.parts[0] <= self.edges[0] and len(free) == limits[1] - limits[0] > 0:
            return limits
        found = self.best_run(element, free, limits) or self.strongest(element, free)
        if found is None or not at_end:
            return found
        behind = range(found[1], limits[1])
        is_last = all(i in free and not WORD.search(self.text[slice(*self.spans[i])]) for i in behind)
        return (found[0], limits[1]) if is_last else found

    def best_run(self, element: Element, free: Sequence[int], limits: Span) -> Span | None:
        """Return the run of free words with most of an element's words, and fewest others; None if none."""
        gains = [0 if own < 0 else 1 if element.holds(own) else -1 for own in self.owner]
        best, found = (0, 0), None
        for start in [limits[0]] if element.begun else free:
            total = 0
            for stop in range(start + 1, limits[1] + 1):
                if stop - 1 not in free:
                    break
                total += gains[stop - 1]
                fits = stop == limits[1] or not element.open_ended
                if fits and (total, start - stop) > best and total > 0:
                    best, found = (total, start - stop), (start, stop)
        return found

    def strongest(self, element: Element, free: Sequence[int]) -> Span | None:
        """Return the free word that depends most on an element."""
        if not free or element.begun or element.open_ended:
            return None
        place = max(free, key=lambda i: float(self.influence[element.parts[0] : element.parts[1], i].sum()))
        return place, place + 1


def nested(
    source: str, ids: Sequence[int], candidate: Candidate, marks: Sequence[Mark], by: Influence
) -> str | None:
    """Return a translation as HTML, with the elements of its source around their words.

    None if that is not possible: without a tree, with tags that are not nested, with words that were put in
    afterwards, or with too many tags.
    """
    elements = elements_of(marks)
    tree, text = candidate.tree, candidate.text
    if not marks or not elements or tree is None:
        return None
    tokens = token_spans(text, tree.tokens, by.surfaces)
    influence = None if tokens is None else by.of_parts(source, [mark.place for mark in marks], ids, tree)
    if tokens is None or influence is None:
        return None
    words = Words.of(text, tokens, influence, _edges(source, marks))
    with_words = {number for number, row in enumerate(influence) if row.any()}
    _arrange(elements, words, (0, len(words.spans)), with_words)
    return "".join(_written(elements, words, source, marks, (0, len(text))))


def _edges(source: str, marks: Sequence[Mark]) -> Span:
    """Return the last part that starts where a source does, and the first that reaches its end."""
    end = len(source.rstrip())
    return sum(mark.place <= 0 for mark in marks), sum(mark.place < end for mark in marks)


def _arrange(elements: Sequence[Element], words: Words, limits: Span, with_words: set[int]) -> None:
    """Give every element its words among those of `limits`, first those that reach beyond the passage."""
    free = set(range(*limits))
    alone = []
    for element in sorted(elements, key=lambda own: (not (own.begun or own.open_ended), own.order)):
        run = None
        if any(element.holds(part) for part in with_words):
            run = words.run(element, sorted(free), limits)
        if run is None:
            alone.append(element)
            continue
        element.words = run
        free -= set(range(*run))
        _arrange(element.children, words, run, with_words)
    taken = [element for element in elements if element not in alone]
    for element in alone:
        bound = _bound(element, words, limits, taken)
        start = limits[0] if element.begun else bound
        element.words = (start, limits[1] if element.open_ended else bound)
        _arrange(element.children, words, element.words, with_words)


def _bound(element: Element, words: Words, limits: Span, taken: Sequence[Element]) -> int:
    """Return before which word something without words goes: that of the part behind it, if there is one."""
    inside = range(*limits)
    behind = [i for i in inside if words.owner[i] == element.parts[1]]
    before = [i for i in inside if words.owner[i] == element.parts[0] - 1]
    earlier = [i for i in inside if 0 <= words.owner[i] < element.parts[0]]
    bound = min(behind) if behind else max(before or earlier or [limits[0] - 1]) + 1
    for other in taken:
        if other.words[0] < bound < other.words[1]:
            return other.words[1] if other.order < element.order else other.words[0]
    return bound


def _written(
    elements: Sequence[Element], words: Words, source: str, marks: Sequence[Mark], limits: Span
) -> Iterator[str]:
    """Yield the characters of `limits` with the elements inside them."""
    place = limits[0]
    for element in sorted(elements, key=lambda own: (own.words[0], own.order)):
        start, stop = element.words
        if start < stop:
            own = words.spans[start][0], words.spans[stop - 1][1]
        else:
            mark = marks[element.order]
            own = (character_of(source, words.text, words.spans, mark, start),) * 2
        own = (limits[0] if element.begun else own[0], limits[1] if element.open_ended else own[1])
        own = (min(max(place, own[0]), limits[1]), min(max(place, own[1]), limits[1]))
        yield escape(words.text[place : own[0]], quote=False) + element.before
        yield from _written(element.children, words, source, marks, own)
        yield element.behind
        place = own[1]
    yield escape(words.text[place : limits[1]], quote=False)
