"""Small changes that files suffer, or that somebody makes who means harm."""

import random
from collections.abc import Callable

WORDS = (
    *(
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\r\n",
        b'"',
        b"'''",
        b"\\u0000",
        b"#",
        b"=",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
    ),
    *(
        b"nan",
        b"-inf",
        b"true",
        b"null",
        b"0",
        b"-1",
        b"1e999",
        b"1" * 30,
        b"9" * 400,
        b"1" * 5000,
        b"2026-01-01",
    ),
    *(b"[" * 3000, b'{"a":' * 3000, b"(V1 " * 50, b"../../etc/passwd", b"/dev/zero", b"\xf0\x9f\x90\xbb"),
    *(b"\x00" * 8, b"\xff" * 8, (1 << 40).to_bytes(8, "little"), (1 << 63).to_bytes(8, "little")),
)


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Change a content in one to sixteen places."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        # headers and ends are where structure is
        size = len(changed)
        low, high = chance.choice(((0, size), (0, min(size, 64)), (max(0, size - 64), size)))
        chance.choice(CHANGES)(changed, chance.randint(low, high), chance)
    return bytes(changed)


def _flip(content: bytearray, place: int, chance: random.Random) -> None:
    if place < len(content):
        content[place] ^= 1 << chance.randrange(8)


def _set(content: bytearray, place: int, chance: random.Random) -> None:
    if place < len(content):
        content[place] = chance.randrange(256)


def _remove(content: bytearray, place: int, chance: random.Random) -> None:
    del content[place : place + chance.choice((1, 2, 8, 100))]


def _cut(content: bytearray, place: int, chance: random.Random) -> None:
    del content[place:]


def _insert(content: bytearray, place: int, chance: random.Random) -> None:
    content[place:place] = chance.choice(WORDS)


def _replace(content: bytearray, place: int, chance: random.Random) -> None:
    """Put a word in the place of a number or name."""
    end = place
    while end < len(content) and chr(content[end]).isalnum():
        end += 1
    content[place:end] = chance.choice(WORDS)


def _repeat(content: bytearray, place: int, chance: random.Random) -> None:
    content[place:place] = content[place : place + chance.choice((1, 8, 100))]


CHANGES: tuple[Callable[[bytearray, int, random.Random], None], ...] = (
    *(_flip, _set, _remove, _cut, _insert, _replace, _repeat),
)
