import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.draw.text import joined_to_previous, safe, shortened, shown, text_width, words_of, wrapped

HEADED = ("<s>", "▁Donau", "dampf", "schiff", ",", "▁z", ".", "B", ".", "</s>")


def test_marks_of_subwords_are_not_shown() -> None:
    assert [shown(piece) for piece in ("▁Haus", "tür", "▁", "Haus@@", "@@", "a▁b")] == [
        "Haus",
        "tür",
        "␣",
        "Haus",
        "@@",
        "a␣b",
    ]


def test_pieces_are_joined_to_the_word_before_them() -> None:
    assert [p for p, joined in zip(HEADED, joined_to_previous(HEADED), strict=True) if joined] == [
        *("dampf", "schiff", ","),
        *(".", "B", "."),
    ]
    assert joined_to_previous(["<s>", "Haus@@", "tür", "auf", "</s>"]) == [False, False, True, False, False]
    assert joined_to_previous(["a", "b"]) == [False, False]  # no marks, so nothing is known
    assert joined_to_previous([]) == []


def test_scripts_without_blanks_have_no_joined_pieces() -> None:
    assert not any(joined_to_previous(["<s>", "▁", "我们", "去", "北京", "。", "</s>"]))


def test_words_are_without_the_punctuation_beside_them() -> None:
    assert words_of(HEADED) == [range(1, 4), range(5, 8)]
    assert words_of(["▁Haus", "."]) == []


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [("m", "i"), ("W", "w"), ("船", "a"), ("Ж", "i"), ("👩", "船"), ("aa", "a"), ("\uff37", "w")],
)
def test_widths_follow_the_letters(wider: str, narrower: str) -> None:
    assert text_width(wider, 15.0) > text_width(narrower, 15.0)


def test_accents_take_no_room() -> None:
    assert text_width("ä", 10.0) == text_width("a\u0308", 10.0) == text_width("a", 10.0)
    assert text_width("q\u0308", 10.0) == text_width("q", 10.0)
    assert text_width("👩\u200d👩", 10.0) <= 2 * text_width("👩", 10.0)


@given(st.text(), st.floats(20, 200))
def test_what_is_cut_fits(text: str, room: float) -> None:
    assert text_width(shortened(shown(text), room, 12.0), 12.0) <= room
    lines = wrapped(text, room, 12.0)
    assert all(text_width(line, 12.0) <= room for line in lines)
    assert "".join(lines).replace(" ", "") == safe(text).replace(" ", "")


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    for character in shown(text) + safe(text):
        assert unicodedata.category(character) not in ("Cc", "Cs")
        assert character not in "\u202e\u2028\ufffe\uffff"
