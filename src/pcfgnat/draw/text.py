"""What tokens look like: characters that are safe to show, their width, and which pieces make a word."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

JOINERS = ("\u200c", "\u200d")
SPACE_MARK, JOIN_MARK = "▁", "@@"  # sentencepiece's at the beginning of words, subword-nmt's inside them
WIDE, OTHER_LETTER, EMOJI = 1.02, 0.75, 1.3  # of the font's size
# Advance widths of DejaVu Sans in hundredths of its size; few fonts are wider, so that words fit their boxes.
_WIDTHS = {
    28: "ijl'",
    30: "IJ",
    33: ",./:;\\|",
    36: "f-",
    40: "()[]t!r",
    48: '"*_`',
    53: "sz?",
    56: "cL",
    59: "FkvxyP",
    63: "TYaoeESbdghnpqu",
    64: "$0123456789{}",
    69: "KAVBRXZC",
    75: "UHNDG",
    80: "&OQw",
    86: "#+<=>^~M",
    98: "%mW@",
}
WIDTHS = {character: hundredths / 100 for hundredths, group in _WIDTHS.items() for character in group}


def characters(text: str) -> list[str]:
    """Cut a text into characters with their accents; what would steer a terminal or break a file goes."""
    found: list[str] = []
    for character in unicodedata.normalize("NFC", text) or "∅":
        category = unicodedata.category(character)
        if found and (category in ("Mn", "Me") or character in JOINERS):
            found[-1] += character
        elif character.isspace():
            found.append("␣")
        elif category in ("Cc", "Cf", "Cs") or character in "\ufffe\uffff":
            found.append("�")
        else:
            found.append(character)
    return found


def is_wide(character: str) -> bool:
    """Whether a character takes the room of two, as Chinese ones do."""
    return unicodedata.east_asian_width(character[0]) in ("W", "F")


def safe(text: str) -> str:
    """Return a text for any file: white space becomes one blank, control characters become visible."""
    return "".join(characters(" ".join(text.split()))).replace("␣", " ") if text.strip() else ""


def text_width(text: str, size: float) -> float:
    """Estimate how wide a text is, for a font of this size; rather too much than too little."""
    return size * sum(_width(character) for character in characters(text))


@lru_cache(maxsize=4096)
def _width(character: str) -> float:
    first = character[0]
    if ord(first) >= 0x1F000:
        return EMOJI
    if is_wide(character):
        return WIDE
    base = unicodedata.normalize("NFD", first)[0]
    upper = 0.1 if base.isupper() else 0.0
    return WIDTHS.get(base, OTHER_LETTER + upper)


def shortened(text: str, room: float, size: float) -> str:
    """Cut a text that is wider than its room."""
    kept = characters(text)
    widths = [size * _width(character) for character in kept]
    total = sum(widths)
    if total <= room:
        return text
    total += size * _width("…")
    while kept and total > room:
        kept.pop()
        total -= widths.pop()
    return "".join(kept) + "…"


def wrapped(text: str, room: float, size: float) -> list[str]:
    """Cut a text into lines, at blanks where there are some."""
    lines = [""]
    for word in safe(text).split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= room:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for character in characters(word):
            if lines[-1] and text_width(lines[-1] + character, size) > room:
                lines.append("")
            lines[-1] += character
    return [line for line in lines if line]


def shown(piece: str) -> str:
    """Return what is shown of a piece: without the marks of subwords, and safe."""
    text = piece.removeprefix(SPACE_MARK) or "␣"
    if len(text) > len(JOIN_MARK):
        text = text.removesuffix(JOIN_MARK)
    return "".join(characters(text.replace(SPACE_MARK, " ")))


def is_special(piece: str) -> bool:
    """Whether a piece is no text, as <s> and </s>."""
    return len(piece) > 2 and piece[0] == "<" and piece[-1] == ">" and piece[1:-1].strip("/").isalnum()


def joined_to_previous(pieces: Sequence[str]) -> list[bool]:
    """Return for each piece whether it continues the word before it.

    Scripts without blanks between words have no marks for this; their pieces stand alone.
    """
    marked_starts = any(piece.startswith(SPACE_MARK) for piece in pieces)
    marked_joins = any(piece.endswith(JOIN_MARK) for piece in pieces)
    joined = [False] * min(len(pieces), 1)
    for before, piece in pairwise(pieces):
        parts = not (is_special(before) or is_special(piece) or piece.startswith(SPACE_MARK))
        if marked_joins and not marked_starts:
            parts = parts and before.endswith(JOIN_MARK)
        elif not marked_starts:
            parts = False
        joined.append(parts and not (is_wide(before[-1:] or " ") or is_wide(piece[:1] or " ")))
    return joined


def words_of(pieces: Sequence[str]) -> list[range]:
    """Find the words of several pieces; punctuation beside a word does not make it one."""
    joined = [*joined_to_previous(pieces), False]
    starts = [i for i, goes_on in enumerate(joined) if not goes_on]
    found = []
    for start, stop in pairwise(starts):
        lettered = [i for i in range(start, stop) if any(c.isalnum() for c in pieces[i])]
        if len(lettered) > 1:
            found.append(range(lettered[0], lettered[-1] + 1))
    return found
