"""Texts that are too long for a model, cut into pieces that fit: where it hurts least."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pcfgnat.text import Tokenizer

CLOSING = r"[\"'\u201d\u2019»)\]\u300d\u300f\uff09]*"  # quotation marks and brackets, Chinese ones too
# A run of marks or spaces is tried from its first character only, and never given back: the time is linear.
SENTENCE_END = re.compile(
    rf"(?<![.!?…])[.!?…]++{CLOSING}+\s++(?![a-zß-öø-ÿ])"  # not before a small letter: `e.g. this`
    rf"|[\u3002\uff01\uff1f]+{CLOSING}\s*"
)
CLAUSE_END = re.compile(
    rf"[,;:.!?…]{CLOSING}+\s+|(?<!\s)\s++[\u2013\u2014-]\s+|[\uff0c\uff1b\uff1a\u3001]+\s*"
)
WORD_END = re.compile(r"\s+")

CHARACTERS_PER_TOKEN = 32  # more than any text has that a vocabulary knows

Lengths = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, order=True)
class Extent:
    """How much of a model's input a text takes: its tokens, or more if it has very many characters."""

    room: int
    tokens: int
    characters: int  # without white space

    @classmethod
    def of(cls, text: str, ids: Sequence[int]) -> "Extent":
        """Measure a text, given with its ids."""
        characters = sum(map(len, text.split()))
        return cls(max(len(ids), 2 + -(-characters // CHARACTERS_PER_TOKEN)), len(ids), characters)

    @staticmethod
    def surely_fits(text: str, ids: Sequence[int], limit: int) -> bool:
        """Return whether a text takes no more than the limit, as far as can be seen without measuring it."""
        return len(ids) <= limit and len(text) <= (limit - 2) * CHARACTERS_PER_TOKEN

    def too_long_for(self, limit: int) -> str:
        """Return why a text is cut that has more room than a model's limit."""
        if self.tokens > limit:
            return f"{self.tokens} tokens, but the model reads at most {limit}"
        most = (limit - 2) * CHARACTERS_PER_TOKEN
        return f"{self.characters} characters, but the model reads at most {most}"


def split_to_fit(text: str, tokenizer: Tokenizer, limit: int) -> list[str]:
    """Cut a text into pieces of at most `limit` tokens each, bos and eos counted.

    It is cut after sentences; those that are too long after clauses, these after words, these anywhere.
    Sentences stay apart, since models are trained on single ones; of smaller pieces as many as fit go
    together. A text that fits is not cut, and nothing but white space is lost. Characters of which a token
    stands for many, such as a whole line of an unknown script, count as well.
    """

    def lengths(texts: Sequence[str]) -> list[int]:
        different = list(dict.fromkeys(texts))
        extents = map(Extent.of, different, tokenizer.encode_all(different))
        found = dict(zip(different, extents, strict=True))
        return [found[own].room for own in texts]

    text = text.strip()
    return list(_fitting([text], lengths, limit, (SENTENCE_END, CLAUSE_END, WORD_END)))


def _fitting(
    texts: Sequence[str], lengths: Lengths, limit: int, ends: Sequence[re.Pattern[str]]
) -> Iterator[str]:
    """Pass on what fits, and cut the rest at the first kind of ends, then at the next one."""
    for text, length in zip(texts, lengths(texts), strict=True):
        if length <= limit:
            yield text.strip()
        elif not ends:
            yield from _cut_anywhere(text, lengths, limit)
        elif ends[0] is SENTENCE_END:
            yield from _fitting(_cut(text, ends[0]), lengths, limit, ends[1:])
        else:
            packed = _packed(_cut(text, ends[0]), lengths, limit)
            yield from _fitting(packed, lengths, limit, ends[1:])


def _cut(text: str, end: re.Pattern[str]) -> list[str]:
    """Cut a text behind every end."""
    bounds = [0, *(match.end() for match in end.finditer(text)), len(text)]
    return [text[start:stop] for start, stop in pairwise(bounds) if text[start:stop].strip()]


def _packed(pieces: Sequence[str], lengths: Lengths, limit: int) -> list[str]:
    """Put neighbours together while they fit; together they are no longer than their lengths added up."""
    groups: list[str] = []
    room = 0
    for piece, length in zip(pieces, lengths([piece.strip() for piece in pieces]), strict=True):
        inside = length - 2
        if groups and inside <= room:
            groups[-1] += piece
        else:
            groups.append(piece)
            room = limit - 2
        room -= inside
    return [group.strip() for group in groups]


def _cut_anywhere(text: str, lengths: Lengths, limit: int) -> Iterator[str]:
    """Halve a word until its pieces fit."""
    pending = [text]
    while pending:
        piece = pending.pop()
        if lengths([piece])[0] <= limit:
            yield piece
        elif len(piece) == 1:
            raise ValueError(
                f"the model must take at least {lengths([piece])[0]} tokens for {piece!r}, got {limit}"
            )
        else:
            middle = len(piece) // 2
            pending += [piece[middle:], piece[:middle]]
