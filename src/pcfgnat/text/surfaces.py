"""What each token of a vocabulary adds to a text, for searches that look at texts and not at tokens."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pcfgnat.text.pipeline import RawPipeline
from pcfgnat.text.special import SPECIAL_TOKENS
from pcfgnat.text.tokenizer import Tokenizer
from pcfgnat.text.trie import TextTrie

BYTE = re.compile(r"<0x([0-9A-F]{2})>")
WORD_START = "\u2581"  # how sentencepiece writes a space
# Scripts written without spaces: any two of their characters have a word boundary between them.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


@lru_cache(maxsize=8)
def word_starts(tokenizer: Tokenizer) -> frozenset[int] | None:
    """Return the tokens that begin a word; None if any token may, as in text that is split with `@@`."""
    if tokenizer.kind == "subwords":
        return None
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    return frozenset(token for token, piece in enumerate(pieces) if piece.startswith(WORD_START))


def is_word_character(character: str) -> bool:
    """Return whether a character continues a word: letters, digits and accents of spaced scripts, `_`."""
    return (character == "_" or unicodedata.category(character)[0] in "LMN") and not UNSPACED.match(character)


@dataclass(frozen=True, eq=False)
class Surfaces:
    """The text of every token; words are apart by spaces, of which one is as good as several.

    A byte above 127 is a surrogate, as in Python's `surrogateescape`. Special tokens add nothing. With a
    `pipeline` tokens write tokenised text, and readers get it detokenised.
    """

    texts: tuple[str, ...]
    pipeline: RawPipeline | None = None

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Surfaces":
        """Read the vocabulary of a tokenizer."""
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        write = _of_subword if tokenizer.kind == "subwords" else _of_sentencepiece
        special = SPECIAL_TOKENS.ids
        texts = tuple("" if token in special else write(piece) for token, piece in enumerate(pieces))
        return cls(texts, tokenizer.pipeline)

    @cached_property
    def characters(self) -> frozenset[str]:
        """All characters that a text can have."""
        return frozenset("".join(self.texts))

    @cached_property
    def has_bytes(self) -> bool:
        """Whether what has no character of its own is written in bytes."""
        return any("\udc80" <= character <= "\udcff" for character in self.characters)

    @cached_property
    def trie(self) -> TextTrie:
        """All texts as a tree of characters."""
        return TextTrie.of(self.texts)

    @cached_property
    def tokens_by_text(self) -> Mapping[str, Sequence[int]]:
        """The tokens that write each text; those that write nothing are left out."""
        found: dict[str, list[int]] = {}
        for token, text in enumerate(self.texts):
            if text:
                found.setdefault(text, []).append(token)
        return found

    def tokens_inside(self, text: str) -> set[int]:
        """Return the tokens whose text is part of another."""
        longest = len(self.trie.levels)
        parts = {text[i:j] for i in range(len(text)) for j in range(i + 1, min(len(text), i + longest) + 1)}
        return {token for part in parts for token in self.tokens_by_text.get(part, ())}

    def spelled(self, text: str) -> str:
        """Return a text as tokens write it: single spaces, composed characters, bytes where it must be."""
        plain = " ".join(unicodedata.normalize("NFC", text).split())
        if self.pipeline is not None:
            plain = self.pipeline.tokenised(plain)
        return "".join(c if c in self.characters or c == " " else _in_bytes(c) for c in plain)

    def can_spell(self, text: str) -> bool:
        """Return whether the vocabulary has all characters of a text."""
        return set(self.spelled(text)) <= self.characters | {" "}

    def can_keep(self, text: str) -> bool:
        """Return whether a reader gets a text as it is, if tokens spell it."""
        if not self.can_spell(text):
            return False
        return self.pipeline is None or self.pipeline.plain(self.pipeline.tokenised(text)) == text

    def letters(self, ids: Sequence[int]) -> list[tuple[str, int]]:
        """Return the characters of a text, each with the place of its token; spaces for what is escaped."""
        places = [place for place, token in enumerate(ids) for _ in self.texts[token]]
        text = "".join(self.texts[token] for token in ids)
        if self.pipeline is not None:
            text = self.pipeline.without_escapes(text)
        return list(zip(text, places, strict=True))


@lru_cache(maxsize=8)
def surfaces_of(tokenizer: Tokenizer) -> Surfaces:
    """Return the surfaces of a tokenizer, which are read once."""
    return Surfaces.of(tokenizer)


def _of_sentencepiece(piece: str) -> str:
    if match := BYTE.fullmatch(piece):
        return _plain(bytes([int(match[1], 16)]).decode("ascii", "surrogateescape"))
    return _plain(piece.replace(WORD_START, " "))


def _of_subword(piece: str) -> str:
    return _plain(piece.removesuffix("@@") if piece.endswith("@@") else f"{piece} ")


def _plain(text: str) -> str:
    return "".join(" " if character.isspace() else character for character in text)


def _in_bytes(character: str) -> str:
    return character.encode("utf-8", "surrogatepass").decode("ascii", "surrogateescape")
