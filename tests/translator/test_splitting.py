"""Long texts are cut in linear time: what takes quadratic time does not end before the test's limit."""

import re

import pytest

from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator.splitting import CLAUSE_END, SENTENCE_END, _cut, split_to_fit

TOKENIZER = SubwordTokenizer(b"a\nb\n")
LONG = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "." * LONG,
        "x" + " " * LONG + "y",
        '.")' * (LONG // 3),
        "." + '"' * LONG,
        ". " * (LONG // 2),
        "…?!" * LONG,
    ],
)
def test_long_runs(text: str) -> None:
    for end in (SENTENCE_END, CLAUSE_END):
        assert "".join(_cut(text, end)).split() == text.split()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ("He said... Then he left.", ["He said... ", "Then he left."]),
        ("See e.g. this one. Good.", ["See e.g. this one. ", "Good."]),
        ("See e.g.  this one. Good.", ["See e.g.  this one. ", "Good."]),
        ('"Go." (He went.) So.', ['"Go." ', "(He went.) ", "So."]),
        ("He came .. ) and. Ok", ["He came .. ", ") and. ", "Ok"]),
        ("好。再见\uff01", ["好。", "再见\uff01"]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert _cut(text, SENTENCE_END) == sentences


def test_clauses() -> None:
    text = "First, second; third - fourth  \u2013  fifth."
    assert _cut(text, CLAUSE_END) == ["First, ", "second; ", "third - ", "fourth  \u2013  ", "fifth."]


def test_the_pieces_are_the_text() -> None:
    text = " ".join("a" if i % 7 else "b." for i in range(500))
    pieces = split_to_fit(text, TOKENIZER, 12)
    assert re.sub(r"\s", "", "".join(pieces)) == re.sub(r"\s", "", text)
    assert all(len(TOKENIZER.encode(piece)) <= 12 for piece in pieces)
