"""Terms and how they are to be translated, applied where a source has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pcfgnat.text.lines import TextError, open_lines
from pcfgnat.text.surfaces import is_word_character

MAX_TERMS = 100_000


@dataclass(frozen=True)
class Term:
    """A phrase of the source and the phrase that its translation must have.

    A source phrase without capitals is found in any case, another one as it is written.
    """

    source: str
    target: str

    def __post_init__(self) -> None:
        for name, text in (("source", self.source), ("target", self.target)):
            if not text.strip():
                raise ValueError(f"the {name} of a term must not be empty, got {text!r}")


def read_glossary(path: Path) -> tuple[Term, ...]:
    """Read a source phrase, a tab and a target phrase per line; empty lines count for nothing."""
    terms = []
    with open_lines(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            fields = line.split("\t")
            if len(fields) != 2 or not all(field.strip() for field in fields):
                raise TextError(f"{path} line {number} must be a source phrase, a tab and a target phrase")
            terms.append(Term(fields[0].strip(), fields[1].strip()))
            if len(terms) > MAX_TERMS:
                raise TextError(f"{path} must have at most {MAX_TERMS} terms, got more")
    return tuple(terms)


def terms_in(source: str, terms: Sequence[Term]) -> list[Term]:
    """Return the terms that a source has as whole words, in its order; longer ones go first and take all."""
    lowered = source.lower()
    taken = [False] * len(source)
    found: dict[int, Term] = {}
    for term in sorted(terms, key=lambda term: -len(term.source)):
        phrase = term.source
        text = lowered if phrase == phrase.lower() and len(lowered) == len(source) else source
        start = text.find(phrase)
        while start >= 0:
            stop = start + len(phrase)
            if _is_whole(source, start, stop) and not any(taken[start:stop]):
                taken[start:stop] = [True] * len(phrase)
                found[start] = term
            start = text.find(phrase, start + 1)
    return [found[start] for start in sorted(found)]


def _is_whole(text: str, start: int, stop: int) -> bool:
    """Return whether no word goes on across the ends of a stretch."""
    edges = ((start - 1, start), (stop - 1, stop))
    return not any(
        left >= 0 and right < len(text) and is_word_character(text[left]) and is_word_character(text[right])
        for left, right in edges
    )
