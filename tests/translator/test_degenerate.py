"""Lines that nobody wrote: whatever takes quadratic time does not end before the test's limit."""

import pytest

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.decoding.constraints import Constraints
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import TranslateOptions, Translator
from pcfgnat.translator.keeping import awkward_items, substituted
from pcfgnat.translator.splitting import CHARACTERS_PER_TOKEN, split_to_fit
from tests.translator.echo import Echo
from tests.translator.test_keeping import LETTERS

TOKENIZER = SubwordTokenizer(b"one\ntwo\n.\n")
LONGEST = 8


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(options=TranslateOptions(keep=True, split=True))


def echo() -> tuple[Echo, Translator]:
    runtime = Echo(LONGEST, TOKENIZER.vocabulary_size)
    return runtime, Translator(runtime, TOKENIZER, DecodingDefaults("viterbi"))


def test_equal_pieces_are_decoded_once() -> None:
    runtime, translator = echo()
    line = "one " * 6_000 + "two"
    assert translator(line).text == line
    assert sum(runtime.batches) == 2


def test_equal_lines_are_decoded_once_and_keep_their_order() -> None:
    runtime, translator = echo()
    lines = ["one two", "two", "one two", "", "two", "one"]
    assert [found.text for found in translator(lines)] == lines
    assert sum(runtime.batches) == 3


def test_equal_sentences_under_other_constraints_are_not_the_same(bundled: Translator) -> None:
    """A prefix is asked of the first sentence of a text only."""
    prefix = "Nun"
    found = bundled("He is here. He is here.", Constraints(prefix=prefix))
    first, second = (part.text for part in found.parts)
    assert first.startswith(prefix)
    assert not second.startswith(prefix)


def test_a_token_of_many_characters_is_cut() -> None:
    _, translator = echo()
    most = (LONGEST - 2) * CHARACTERS_PER_TOKEN
    note = f"split into 8 pieces: 1000 characters, but the model reads at most {most}"
    assert note in translator("?" * 1000).notes
    assert translator("?" * most).parts == ()


def test_white_space_is_not_counted() -> None:
    assert split_to_fit("one" + " " * 100_000 + "two", TOKENIZER, LONGEST) == ["one" + " " * 100_000 + "two"]


@pytest.mark.parametrize(
    "unit", [".", "a", "😀", "a ", "中😀", "中", "12 34 ", "<", "\u200d", "e\u0301", "http://a.b/c ", "He. "]
)
def test_long_lines_of_one_thing(bundled: Translator, unit: str) -> None:
    line = unit * (20_000 // len(unit))
    found = bundled(line)
    assert "".join("".join(part.source for part in found.parts).split()) == "".join(line.split())
    assert found.text


def test_marks_of_a_long_source_take_linear_time() -> None:
    source = "中😀 " * 5_000
    items = awkward_items(source, LETTERS)
    change = substituted(source, items, "", LETTERS)
    assert len(items) == 10_000
    assert len(change.marks) == 5_000
    assert change.marks[2_500].share == pytest.approx(0.5, abs=1e-3)
