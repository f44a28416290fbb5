"""What must survive a translation, on lines that are awkward, with the bundled model."""

import re

import pytest

from pcfgnat.text.surfaces import Surfaces
from pcfgnat.translator import TranslateOptions, Translator
from pcfgnat.translator.keeping import awkward_items, lost_items, substituted

LETTERS = Surfaces(("", "", "", "", *"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,!0123456789:- "))
AWKWARD = [
    ("The bill is 1,234.50 euros.", ["1,234.50"]),
    ("Call 030-1234567 at 14:35.", ["030-1234567", "14:35"]),
    ("Visit https://example.com/a?b=1&c=%20 today.", ["https://example.com/a?b=1&c=%20"]),
    ("See www.example.org.", ["www.example.org"]),
    ("Write to tom.smith+x@example.org, please.", ["tom.smith+x@example.org"]),
    ("This is <b>very</b> good.<br/>", ["<b>", "</b>", "<br/>"]),
    ("I love pizza 🍕 a lot.", ["🍕"]),
    ("🎉 We won! 👩‍👩‍👧", ["🎉", "👩‍👩‍👧"]),
    ("Hello {name}, you have %d messages.", ["{name}", "%d"]),
    ("He lives in Łódź and she in 東京.", ["Łódź", "東京"]),
    ("Привет", ["Привет"]),
    ("🍕🍕🍕", ["🍕🍕🍕"]),
    ("It costs 5 € or 15 £.", ["€", "15", "£"]),
    ("a = b # 100", ["=", "#", "100"]),
]
ORDINARY = [
    "The weather is nice today.",
    "I have 2 cats and 3 dogs.",
    "The train leaves at 8 o'clock.",
    "What's your name?",
    '"I don\'t know," he said.',
]


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(options=TranslateOptions(keep=True))


def test_awkward_lines_lose_nothing(bundled: Translator) -> None:
    for found, (line, items) in zip(bundled([line for line, _ in AWKWARD]), AWKWARD, strict=True):
        assert [item for item in items if item not in found.text] == [], line
        assert found.unmet == ()


def test_ordinary_lines_stay_as_they_are(bundled: Translator) -> None:
    plain = bundled.with_options(TranslateOptions())
    assert bundled(ORDINARY) == plain(ORDINARY)


def test_a_number_that_the_model_changes_is_mended(bundled: Translator) -> None:
    line = "Tom was born in 1987."
    found = bundled(line)
    assert found.forced  # alone, the model says one digit twice
    assert re.search(r"\b1987\b", found.text), found.text


def test_all_candidates_and_other_strategies_keep(bundled: Translator) -> None:
    several = bundled.with_options(TranslateOptions(results=3, keep=True))("I love pizza 🍕.")
    assert [("🍕" in candidate.text) for candidate in several.candidates] == [True] * 3
    greedy = bundled.with_options(TranslateOptions(strategy="greedy", keep=True))
    assert "a@b.org" in greedy("Write to a@b.org today.").text  # it cannot be constrained


def test_a_job_depends_on_it(bundled: Translator) -> None:
    assert bundled.job()["keep"] == "True"
    assert "keep" not in bundled.with_options(TranslateOptions()).job()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("the B2B room 7", []),
        ("on 3.5.2024, 12 of them", [("number", "3.5.2024"), ("number", "12")]),
        ("see https://a.b/c.", [("name", "https://a.b/c")]),
        ("<a href='x y'>link</a>", [("mark", "<a href='x y'>"), ("mark", "</a>")]),
        ("a < b > c", [("mark", "<"), ("mark", ">")]),
        ("naïve façade", [("name", "naïve"), ("name", "façade")]),
        ("100% {x}", [("number", "100"), ("mark", "%"), ("name", "{x}")]),
    ],
)
def test_items(source: str, expected: list[tuple[str, str]]) -> None:
    items = awkward_items(source, LETTERS)
    assert [(item.kind, item.text) for item in items] == expected
    assert all(source[item.start : item.stop] == item.text for item in items)


def test_numbers_may_be_written_as_the_other_language_does() -> None:
    items = awkward_items("1,234.50 and 10:30 and 99", LETTERS)
    assert lost_items(items, "1.234,50 und 10.30 und 99") == []
    assert [item.text for item in lost_items(items, "1234 und 1030")] == ["1,234.50", "99"]
    twice = awkward_items("11 or 11", LETTERS)
    assert lost_items(twice, "11") == twice


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("It is <b>very</b> good.", "Es ist sehr gut.", "Es ist <b>sehr</b> gut."),
        ("I like it 🍕.", "Ich mag es.", "Ich mag es 🍕."),
        ("I like it. 🍕", "Ich mag es.", "Ich mag es. 🍕"),
        ("🍕 I like it.", "Ich mag es.", "🍕 Ich mag es."),
        ("🍕", "", "🍕"),
        ("<p>One two</p>", "Eins zwei", "<p>Eins zwei</p>"),
    ],
)
def test_marks_go_back_between_the_same_words(source: str, translation: str, expected: str) -> None:
    change = substituted(source, awkward_items(source, LETTERS), translation, LETTERS)
    assert change.required == ()
    assert change.undone(translation) == expected


def test_stand_ins_are_numbers_that_the_source_does_not_have() -> None:
    source = "Ask a@b.org or 7013 or x@y.org."
    change = substituted(source, awkward_items(source, LETTERS), "", LETTERS)
    assert change.text == "Ask 7019 or 7013 or 7025."
    assert change.required == ("7019", "7013", "7025")
    assert change.undone("7025, 7013, 7019?") == "x@y.org, 7013, a@b.org?"
    put_back = change.undone("Wir fragen auch noch 7025.")
    assert put_back == "Wir a@b.org fragen 7013 auch noch x@y.org."


def test_without_digits_nothing_stands_in() -> None:
    few = Surfaces(("", "", "", "", *"abcdefghijklmnopqrstuvwxyz. "))
    change = substituted("ask a@b.org now", awkward_items("ask a@b.org now", few), "", few)
    assert (change.text, change.required) == ("ask now", ())
    assert change.undone("frag jetzt") == "frag a@b.org jetzt"
