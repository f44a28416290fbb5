"""Texts as a tree of characters, against plain loops over them."""

import random

import numpy as np

from pcfgnat.text.surfaces import Surfaces
from pcfgnat.text.trie import TextTrie

MODULUS = 97


def folded(text: str, symbols: dict[str, int], start: int) -> int:
    for character in text:
        start = (3 * start + symbols[character] + 1) % MODULUS
    return start


def test_every_text_is_folded_from_its_first_character_on() -> None:
    chance = random.Random(0)
    texts = [
        "",
        *("".join(chance.choices("ab \u6c34x", k=chance.randint(1, 6))) for _ in range(300)),
        "a",
        "",
    ]
    trie = TextTrie.of(texts)
    symbols = {character: place % 3 for place, character in enumerate(trie.characters)}
    asked = list[tuple[int, int]]()

    def step(made: int, symbol: int) -> int:
        asked.append((made, symbol))
        return (3 * made + symbol + 1) % MODULUS

    found = trie.fold(5, np.array([symbols[character] for character in trie.characters]), step)
    assert found.tolist() == [folded(text, symbols, 5) for text in texts]
    assert len(asked) < len({text[:stop] for text in texts for stop in range(1, len(text) + 1)})


def test_no_texts() -> None:
    found = TextTrie.of(["", ""]).fold(7, np.zeros(0, dtype=np.int64), lambda made, symbol: made + symbol)
    assert found.tolist() == [7, 7]


def test_tokens_inside_a_text() -> None:
    surfaces = Surfaces(("", " a", "b", "ab", " ab", "ba", "b"))
    for text in (" ab ", "", "bab", "x"):
        expected = {token for token, own in enumerate(surfaces.texts) if own and own in text}
        assert surfaces.tokens_inside(text) == expected
