"""A source that a model cannot read is noted."""

import pytest

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.cli import main
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import TranslateOptions, Translator
from tests.translator.echo import Echo


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(options=TranslateOptions(split=True, keep=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Привет, как дела?", ("mostly unknown to the model: 87 % of its characters",)),
        ("你好。再见。", ("mostly unknown to the model: 100 % of its characters",)),
        ("Where is Łódź?", ()),
        ("The weather is nice today.", ()),
        ("", ()),
    ],
)
def test_characters(bundled: Translator, text: str, expected: tuple[str, ...]) -> None:
    found = bundled(text)
    assert found.notes == expected
    assert found.to_dict().get("notes", []) == list(expected)


def test_tokens_of_split_text() -> None:
    tokenizer = SubwordTokenizer(b"one\ntwo")
    translator = Translator(Echo(12, tokenizer.vocabulary_size), tokenizer, DecodingDefaults("viterbi"))
    assert translator("one x y").notes == ("mostly unknown to the model: 67 % of its tokens",)
    assert translator("one x").notes == ()
    html = translator.with_options(TranslateOptions(format="html"))
    assert html("<p>no</p><p>two no no</p>").notes == ("mostly unknown to the model: 75 % of its tokens",)


def test_the_command_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "Hello.", "Привет", "Как дела"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "unknown" in line]
    assert "line 2: mostly unknown to the model: 100 % of its characters" in line
