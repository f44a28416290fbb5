import pytest

from pcfgnat.evaluation import Measures
from pcfgnat.evaluation.words import missing_words, repeated_words


def test_repeated_words_are_counted_above_the_references() -> None:
    references = ["he had had enough", "a b c d e f"]  # 1 of 10
    translations = ["he had had had enough", "a a b b c"]  # 4 of 10
    assert repeated_words(translations, references, str.split) == pytest.approx(30)
    assert repeated_words(references, references, str.split) == 0
    assert repeated_words(["x y"] * 2, references, str.split) == pytest.approx(-10)
    assert repeated_words([""], [""], str.split) == 0


def test_missing_words_are_those_of_the_reference_each_as_often_as_it_lacks() -> None:
    assert missing_words(["a b"], ["a a b c"], str.split) == pytest.approx(50)
    assert missing_words(["c b a a z"], ["a a b c"], str.split) == 0
    assert missing_words(["", "x"], ["a b c", "x"], str.split) == pytest.approx(75)
    assert missing_words([""], [""], str.split) == 0


def test_words_are_those_of_the_tokenizer() -> None:
    scores = Measures().score(["Ja, ja!"], ["Ja, nein!"])
    assert scores.missing_words == pytest.approx(25)  # Ja , nein !
    assert Measures("zh").score(["好好"], ["很好"]).repeated_words == pytest.approx(50)
