import pytest

from pcfgnat.translator import TranslateOptions, Translator
from pcfgnat.translator.sentences import sentences_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One sentence.", ["One sentence."]),
        ("How are you? I am fine.", ["How are you?", "I am fine."]),
        ('"Stop!" He ran. Why?', ['"Stop!"', "He ran.", "Why?"]),
        ("Mr. Smith met Dr. A. Jones. They left.", ["Mr. Smith met Dr. A. Jones.", "They left."]),
        ("Prof. Miller, e.g. Tom, came.", ["Prof. Miller, e.g. Tom, came."]),
        ("I saw it. You did too.", ["I saw it.", "You did too."]),
        ("Am 3. Oktober.", ["Am 3. Oktober."]),
        ("你好。再见。", ["你好。", "再见。"]),
        ("", [""]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [sentence for sentence, _ in sentences_of(text)] == expected


def test_line_breaks_are_kept() -> None:
    found = list(sentences_of("\nFirst. Second.\r\n\n  Third\n"))
    assert found == [("First.", " "), ("Second.", "\n"), ("", "\n"), ("Third", "")]


def test_the_time_is_linear() -> None:
    for text in ("Mr. " * 100_000, " " * 300_000 + "x", ". " * 100_000, "\n" * 100_000):
        assert sum(len(sentence) for sentence, _ in sentences_of(text)) <= len(text)


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(runtime="torch", options=TranslateOptions(split=True, batch=1))


def test_sentences_are_translated_one_by_one(bundled: Translator) -> None:
    first, second, third = "How are you?", "The house is old.", "I like tea."
    found = bundled(f"{first} {second}\n\n{third}")
    one, two, three = (bundled(text).text for text in (first, second, third))
    assert found.text == f"{one} {two}\n\n{three}"
    assert [part.source for part in found.parts] == [first, second, third]
    assert found.notes == ()
    assert bundled.job()["split"] == "True"


def test_a_single_sentence_is_as_ever(bundled: Translator) -> None:
    plain = bundled.with_options(TranslateOptions(batch=1))
    assert bundled("The weather is nice today.") == plain("The weather is nice today.")
    assert bundled(" \n ").text == ""


def test_a_sentence_that_is_too_long_is_cut_and_noted(bundled: Translator) -> None:
    found = bundled("I like tea.\n" + "the old house and " * 60)
    assert found.text.count("\n") == 1
    assert found.notes[0].startswith("split into")
