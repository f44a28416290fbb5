"""HTML as passages to translate between strings that stay as they are; no character of a document is lost."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate
from typing import Literal

INLINE = frozenset(
    {"a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img"}
    | {"ins", "label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u"}
    | {"wbr"}
)  # fmt: skip
VERBATIM_INLINE = frozenset({"code", "kbd", "math", "samp", "svg", "var"})
VERBATIM = VERBATIM_INLINE | {"pre", "script", "style", "template", "textarea"}
SPACES = re.compile(r"[ \t\n\r\f]+")
LETTER = re.compile(r"[^\W\d_]")

EventKind = Literal["open", "close", "text", "single", "comment", "other"]
MarkKind = Literal["open", "close", "single"]
MARKS: dict[EventKind, MarkKind] = {"open": "open", "close": "close", "single": "single", "comment": "single"}


@dataclass(frozen=True)
class Mark:
    """A tag, a comment or an element that is not translated, and where it stands in the text of a passage."""

    kind: MarkKind
    html: str
    place: int


@dataclass(frozen=True)
class Passage:
    """Text without entities and with single spaces, and the marks inside it, in order."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class _Event:
    """What the parser reports; `html` is exactly what the document has there."""

    kind: EventKind
    name: str
    html: str
    untranslated: bool = False


def passages_of(document: str) -> list[str | Passage]:
    """Return what a document consists of; its strings, and passages as they were written, make it up."""
    found: list[str | Passage] = []
    run: list[Mark | _Event] = []
    for event in _joined_verbatim(_events(document)):
        inside = event.kind == "comment" or event.name in INLINE | VERBATIM_INLINE
        if event.kind == "text":
            run.append(event)
        elif inside and event.kind != "other":
            run.append(Mark(MARKS[event.kind], event.html, 0))
        else:
            found += [*_of_run(run), event.html]
            run = []
    return [*found, *_of_run(run)]


class _Parser(HTMLParser):
    """Records where each part of a document starts, and of what kind it is."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=False)
        lines = document.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self.found: list[tuple[int, EventKind, str, int, bool]] = []
        self.feed(document)
        self.close()

    def _add(self, kind: EventKind, name: str = "", length: int = -1, untranslated: bool = False) -> None:
        line, column = self.getpos()
        self.found.append((self._starts[line - 1] + column, kind, name, length, untranslated))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("open", tag, untranslated=_is_untranslated(attrs))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("single", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("text", length=len(data))

    def handle_entityref(self, name: str) -> None:
        self._add("text", name="&")

    def handle_charref(self, name: str) -> None:
        self._add("text", name="&")

    def handle_comment(self, data: str) -> None:
        self._add("comment")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


def _is_untranslated(attributes: Sequence[tuple[str, str | None]]) -> bool:
    known = {name: value or "" for name, value in attributes}
    return known.get("translate", "").lower() == "no" or "notranslate" in known.get("class", "").split()


def _events(document: str) -> Iterator[_Event]:
    """Yield all of a document: each event reaches to the next, whatever the parser made of it."""
    end_of_tags = document.rfind(">") + 1  # the parser would look for an end behind every `<` of the rest
    yield from _parsed(document[:end_of_tags])
    yield _Event("text", "&", document[end_of_tags:])


def _parsed(document: str) -> Iterator[_Event]:
    found = _Parser(document).found
    if not found or found[0][0] > 0:
        yield _Event("other", "", document[: found[0][0] if found else None])
    stops = [*(start for start, *_ in found), len(document)][1:]
    for (start, kind, name, length, untranslated), stop in zip(found, stops, strict=True):
        end = stop if length < 0 else min(stop, start + length)
        yield _Event(kind, name, document[start:end], untranslated=untranslated)
        if end < stop:
            yield _Event("other", "", document[end:stop])


def _joined_verbatim(events: Iterator[_Event]) -> Iterator[_Event]:
    """Make one event of every element that stays as it is; one that is never closed reaches to the end."""
    name, depth, html = "", 0, list[str]()
    for event in events:
        if not depth:
            if event.kind != "open" or not (event.name in VERBATIM or event.untranslated):
                yield event
                continue
            name = event.name
        html.append(event.html)
        if event.name == name:
            depth += {"open": 1, "close": -1}.get(event.kind, 0)
        if not depth:
            yield _Event("single", name, "".join(html))
            html = []
    if html:
        yield _Event("other", name, "".join(html))


def _of_run(run: Sequence[Mark | _Event]) -> Iterator[str | Passage]:
    """Yield a passage, and around it the spaces and marks before its first and behind its last word."""
    words = [i for i, item in enumerate(run) if isinstance(item, _Event) and _plain(item).strip(" ")]
    whole = "".join(item.html for item in run)
    if not words or not LETTER.search("".join(_plain(run[i]) for i in words)):
        yield whole
        return
    first, last = words[0], words[-1]
    yield "".join(item.html for item in run[:first])
    yield _leading(run[first].html)
    text, marks = "", list[Mark]()
    for item in run[first : last + 1]:
        if isinstance(item, Mark):
            marks.append(Mark(item.kind, item.html, len(text)))
        else:
            added = _plain(item)
            text += added.lstrip(" ") if not text or text.endswith(" ") else added
    yield Passage(text.rstrip(" "), tuple(marks))
    yield _leading(run[last].html[::-1])[::-1]
    yield "".join(item.html for item in run[last + 1 :])


def _plain(item: Mark | _Event) -> str:
    """Return what readers see of text, a run of spaces as one."""
    if isinstance(item, Mark):
        return ""
    return SPACES.sub(" ", unescape(item.html) if item.name == "&" else item.html)


def _leading(text: str) -> str:
    match = SPACES.match(text)
    return match[0] if match else ""
