"""Which word each subword belongs to, and whether it ends it."""

import bisect
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pcfgnat.text import Tokenizer

SPACE = "▁"
SUBWORD_MARK = "@@"
NO_TEXT = re.compile(r"<0x[0-9A-F]{2}>|<unk>|<pad>|<s>|</s>")  # pieces that are names, not text
# Penn Treebank's way with contractions; numbers and hyphenated words stay whole, other signs are words
WORD = re.compile(
    r"\w+?(?=n['’]t\b)|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b|\w+(?:[-.,:/]\w+)*|\.{2,}|--+|[^\w\s]",  # noqa: RUF001
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Words:
    """A sentence cut into words: `word_of[i]` is the index of piece i's word.

    A piece is unfinished if its word continues after it.
    """

    words: tuple[str, ...]
    word_of: tuple[int, ...]
    unfinished: tuple[bool, ...]


def words_of(pieces: Sequence[str], kind: str) -> Words:
    """Join pieces of a tokenizer of this kind, cut the text into words, and find each piece's word.

    Text split with `@@` was cut into words before. A piece over several words belongs to the last.
    """
    if kind == "subwords":
        return _marked(pieces)
    text, ends = "", []
    for piece in pieces:
        text += NO_TEXT.sub("\ufffd", piece).replace(SPACE, " ")
        ends.append(len(text))
    matches = list(WORD.finditer(text))
    starts = [match.start() for match in matches]
    word_of, unfinished = [], []
    for piece, end in zip(pieces, ends, strict=True):
        blank = not piece.strip(SPACE)  # belongs to the word that it begins
        word = bisect.bisect_right(starts, end if blank else end - 1) - 1
        word_of.append(max(word, 0))
        unfinished.append(blank or end < matches[word].end())
    words = tuple(match.group() for match in matches) or ("\ufffd",) * bool(pieces)
    return Words(words, tuple(word_of), tuple(unfinished))


def _marked(pieces: Sequence[str]) -> Words:
    words, word_of, unfinished = [""], [], []
    for piece in pieces:
        goes_on = piece.endswith(SUBWORD_MARK)
        words[-1] += piece.removesuffix(SUBWORD_MARK)
        word_of.append(len(words) - 1)
        unfinished.append(goes_on)
        if not goes_on:
            words.append("")
    return Words(tuple(words if words[-1] else words[:-1]), tuple(word_of), tuple(unfinished))


def sentence_words(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """Cut the ids of a sentence, given without bos and eos, into words."""
    return words_of(tokenizer.pieces(ids), tokenizer.kind)
