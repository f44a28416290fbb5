"""Texts as people have them: several sentences in a line, several lines."""

import re
from collections.abc import Iterator

from pcfgnat.translator.splitting import SENTENCE_END

# A full stop ends no sentence behind initials, numbers, titles and other short names, `e.g.` and the like.
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'„“])(?:\w|\d+|[A-ZÄÖÜ]\w{1,2}|\w+\.\w[\w.]*|[Pp]rof|[Ee]tc|[Bb]zw|[Uu]sw|[Vv]gl|[Cc]apt)\.\s*$"
)
NEAR = 40  # characters before a full stop that are looked at


def sentences_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a text, and what stands behind each: a line break or a space.

    Where it is not clear that a sentence ends, it goes on: `Mr. Smith`, `3. Oktober`, `e.g. This`. An empty
    line is an empty sentence.
    """
    *lines, last = text.strip().split("\n")
    for line in lines:
        yield from _of_line(line, "\n")
    yield from _of_line(last, "")


def _of_line(line: str, behind: str) -> Iterator[tuple[str, str]]:
    start = 0
    for end in SENTENCE_END.finditer(line):
        if end.end() == len(line) or ABBREVIATION.search(line[max(start, end.end() - NEAR) : end.end()]):
            continue
        yield line[start : end.end()].strip(), " "
        start = end.end()
    yield line[start:].strip(), behind
