"""Automata over texts against regular expressions and plain Python, in every segmentation."""

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

from pcfgnat.grammar.class_automaton import ClassAutomaton, TooManyStatesError, product
from pcfgnat.text import LearnSettings, SentencePieceTokenizer, SubwordTokenizer
from pcfgnat.text.automata import at_most, begins, contains, lacks
from pcfgnat.text.surfaces import Surfaces, is_word_character

TEXTS = ("", " a", "a", " b", "b", " ab", "ba", " ", "-", ".", " a b", "ab ", "x", "aba", "\u6c34")
SURFACES = Surfaces(TEXTS)


def written(ids: list[int], texts: tuple[str, ...] = TEXTS) -> str:
    return " ".join("".join(texts[token] for token in ids).split())


def has(text: str, phrase: str) -> bool:
    """The phrase stands in the text, and no word goes on across its ends."""
    before = r"(?<![\w])" if is_word_character(phrase[0]) else ""
    after = r"(?![\w])" if is_word_character(phrase[-1]) else ""
    unspaced = text.replace("\u6c34", "。")  # a boundary on either side, which \w does not know
    return re.search(before + re.escape(phrase.replace("\u6c34", "。")) + after, unspaced) is not None


def in_order(text: str, phrases: list[str]) -> bool:
    if not phrases:
        return True
    for stop in range(1, len(text) + 1):  # the earliest end leaves the most room
        if not has_at_end(text, stop, phrases[0]):
            continue
        rest = text[stop:]
        padded = rest if not is_word_character(text[stop - 1]) else f"_{rest}"
        return in_order(padded if len(phrases) > 1 else "", phrases[1:])
    return False


def has_at_end(text: str, stop: int, phrase: str) -> bool:
    start = stop - len(phrase)
    if start < 0 or text[start:stop] != phrase:
        return False
    edges = [(start - 1, start), (stop - 1, stop)]
    return not any(
        left >= 0 and right < len(text) and is_word_character(text[left]) and is_word_character(text[right])
        for left, right in edges
    )


CASES: list[tuple[str, Callable[[], ClassAutomaton], Callable[[str], bool]]] = [
    *[
        (f"contains {p}", lambda p=p: contains([p], SURFACES), lambda text, p=p: has(text, p))
        for p in ("a", "ab", "a b", "aba", "b-a", "-", ".", "a.", "\u6c34", "ab a", "aa a")
    ],
    *[
        (f"lacks {p}", lambda p=p: lacks(p, SURFACES), lambda text, p=p: not has(text, p))
        for p in ("a", "ab", "a b", "-", "x\u6c34")
    ],
    *[
        (f"begins {p!r}", lambda p=p: begins(p, SURFACES), lambda t, p=p: f"{t} ".startswith(p))
        for p in ("a", "ab a", "a ", "- ", "x")
    ],
    *[
        (f"at most {n}", lambda n=n: at_most(n, SURFACES), lambda text, n=n: len(text) <= n)
        for n in (1, 4, 9)
    ],
    *[
        (
            f"in order {ps}",
            lambda ps=ps: contains(ps, SURFACES),
            lambda text, ps=ps: in_order(text, list(ps)),
        )
        for ps in (("a", "b"), ("a", "a"), ("ab", "a b", "a"), (".", "a"))
    ],
]


@pytest.mark.parametrize(("build", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_text_is_judged_however_it_is_cut(
    build: Callable[[], ClassAutomaton], expected: Callable[[str], bool]
) -> None:
    automaton, draw = build(), random.Random(1)
    judged = set()
    for _ in range(3000):
        ids = draw.choices(range(len(TEXTS)), k=draw.randint(0, 6))
        verdict = expected(written(ids))
        judged.add(verdict)
        assert automaton.accepts(ids) == verdict, written(ids)
    assert judged == {True, False}


def test_products_accept_what_both_accept_and_are_bounded() -> None:
    left, right = contains(["ab"], SURFACES), at_most(6, SURFACES)
    both, draw = product(left, right, 1000), random.Random(2)
    for _ in range(2000):
        ids = draw.choices(range(len(TEXTS)), k=draw.randint(0, 5))
        assert both.accepts(ids) == (left.accepts(ids) and right.accepts(ids))
    size = len(both.table)
    assert len(product(left, right, size).table) == size
    with pytest.raises(TooManyStatesError, match=f"at most {size - 1} states"):
        product(left, right, size - 1)


def test_minimal_automata_are_small_and_the_same() -> None:
    generator = np.random.default_rng(0)
    for _ in range(30):
        table = generator.integers(-1, 6, size=(6, 4))
        automaton = ClassAutomaton(generator.integers(0, 4, size=9), table, generator.random(6) < 0.4)
        small = automaton.minimal()
        assert len(small.table) <= 6
        assert small.table.shape[1] <= 4
        for _ in range(200):
            ids = generator.integers(0, 9, size=generator.integers(0, 7)).tolist()
            assert small.accepts(ids) == automaton.accepts(ids)
    same = ClassAutomaton(np.zeros(3, dtype=np.int64), np.array([[1], [0]]), np.array([True, True]))
    assert same.minimal().table.tolist() == [[0]]


def test_surfaces_are_the_text_that_tokenizers_write() -> None:
    sentences = ["Das Haus ist alt.", "Die Häuser — sehr alt!", "Ein Satz, noch ein Satz."] * 20
    learnt = SentencePieceTokenizer.learn(
        sentences, LearnSettings(vocabulary_size=330, byte_fallback=True, character_coverage=0.99)
    )
    subwords = SubwordTokenizer(b"Das\nHau@@\ns\nist\n.\n")
    for tokenizer, texts in ((learnt, sentences[:3]), (subwords, ["Das Hau@@ s ist ."])):
        surfaces = Surfaces.of(tokenizer)
        for text in texts:
            ids = tokenizer.encode(text)
            joined = "".join(surfaces.texts[token] for token in ids)
            assert " ".join(joined.split()) == surfaces.spelled(tokenizer.decode(ids))


def test_a_phrase_is_found_in_bytes() -> None:
    learnt = SentencePieceTokenizer.learn(
        ["ein Satz"] * 9, LearnSettings(vocabulary_size=270, byte_fallback=True)
    )
    surfaces = Surfaces.of(learnt)
    assert surfaces.can_spell("Pizza 🍕")
    assert contains(["🍕"], surfaces).accepts(learnt.encode("ein 🍕 Satz"))
    assert not contains(["🍕"], surfaces).accepts(learnt.encode("ein 🍔 Satz"))
    assert not SURFACES.can_spell("ß")


def test_empty_phrases_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one character, got '  '"):
        contains(["  "], SURFACES)
