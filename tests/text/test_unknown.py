"""Warnings about text that a vocabulary does not cover."""

from pathlib import Path

import pytest

from pcfgnat.cli import main
from pcfgnat.text import LearnSettings, PrepareReport, PrepareSettings, prepare
from pcfgnat.text.unknown import unknown_warnings
from tests.text.bilingual import write_lines, write_pair

PLAIN = [("a b c d", "e f g h")] * 50


def report(directory: Path, test: list[tuple[str, str]], byte_fallback: bool = False) -> PrepareReport:
    learn = LearnSettings(vocabulary_size=300 if byte_fallback else 20, byte_fallback=byte_fallback)
    train, held_out = write_pair(directory, "train", PLAIN), write_pair(directory, "test", test)
    return prepare(PrepareSettings(directory / "data", (train,), test=held_out, learn=learn))


def test_many_unknown_tokens_are_warned_of(tmp_path: Path) -> None:
    (warning,) = unknown_warnings(report(tmp_path, [("a b c d", "e ☃ g ☃")] * 10))
    assert "of the target tokens of test are unknown (20 of " in warning
    assert warning.endswith("and will be lost: raise --character-coverage or use --byte-fallback")


def test_few_unknown_tokens_are_not(tmp_path: Path) -> None:
    assert list(unknown_warnings(report(tmp_path, [*PLAIN * 4, ("a b c ☃", "e f g h")]))) == []


@pytest.mark.parametrize("given", ["subword-vocabulary", "tokenizer"])
def test_the_advice_fits_the_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    write_pair(tmp_path, "train", PLAIN)
    if given == "tokenizer":
        report(tmp_path, PLAIN)
        source, place = "x y z ☃", tmp_path / "data" / "tokenizer"
    else:
        source, place = "a b c d", write_lines(tmp_path / "words", ["e", "f", "g", "h"])
    pair = write_pair(tmp_path, "more", [(source, "e f g h")] * 20)
    arguments = ["prepare", "--train", f"{pair.source},{pair.target}", f"--{given}", str(place)]
    assert main([*arguments, "--output", str(tmp_path / "new")]) == 0
    advice = {
        "tokenizer": "use a tokenizer",
        "subword-vocabulary": "use the vocabulary that the text",
    }
    captured = capsys.readouterr()
    assert "pcfgnat: warning: " in captured.err
    assert advice[given] in captured.err
    assert "source: " in captured.out
