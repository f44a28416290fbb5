"""Characters of text as they are compared: composed, and with single spaces."""

import re
import unicodedata

STREAM_SAFE_FROM = 1000  # characters; shorter texts are quick in any case
MAX_ACCENTS, GRAPHEME_JOINER = 30, "\u034f"
SURROGATE = re.compile("[\ud800-\udfff]")


def composed(text: str) -> str:
    """Return a text of composed characters (NFC), with single spaces."""
    if text.isascii():
        return " ".join(text.split())
    whole = SURROGATE.sub("\ufffd", text)  # what is no character at all sentencepiece does not take
    if len(whole) > STREAM_SAFE_FROM:
        whole = _stream_safe(whole)
    return " ".join(unicodedata.normalize("NFC", whole).split())


def _stream_safe(text: str) -> str:
    """Join no more than 30 accents to a letter (Unicode annex 15), as sorting many takes quadratic time."""
    safe: list[str] = []
    accents = 0
    for character in text:
        accents = accents + 1 if unicodedata.combining(character) else 0
        if accents > MAX_ACCENTS:
            safe.append(GRAPHEME_JOINER)
            accents = 1
        safe.append(character)
    return "".join(safe)
