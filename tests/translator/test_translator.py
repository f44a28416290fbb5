"""The translator, with a runtime that repeats its source: whatever is out of place shows."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.config import from_dict
from pcfgnat.decoding import DecodingError, Viterbi
from pcfgnat.storage.growing import GrowingFiles
from pcfgnat.text import SubwordTokenizer, Tokenizer
from pcfgnat.translator import (
    TranslateOptions,
    Translation,
    Translator,
    distill,
    pair_files,
    split_to_fit,
)
from tests.translator.echo import Echo

WORDS = ["one", "two", "three", "four", "five", "six", "se@@", "ven", ",", ".", "!", "Ei@@", "ght"]
TOKENIZER = SubwordTokenizer("\n".join(WORDS).encode())


def made(
    longest: int = 8, options: TranslateOptions | None = None, tokenizer: Tokenizer = TOKENIZER
) -> Translator:
    runtime = Echo(longest, tokenizer.vocabulary_size)
    return Translator(runtime, tokenizer, DecodingDefaults("viterbi"), options)


def lines_of(count: int) -> list[str]:
    return [" ".join(WORDS[(i + j) % 6] for j in range(i % 6)) for i in range(count)]


def test_one_text_gives_one_translation() -> None:
    result = made()("one se@@ ven .")
    assert (result.source, result.text, str(result)) == ("one se@@ ven .", "one seven .", "one seven .")
    assert result.pieces == ("one", "se@@", "ven", ".")
    assert result.score == -6.0
    assert result.tree is not None
    assert result.tree.words == ("<s>", "one", "se@@", "ven", ".", "</s>")
    assert (result.alternatives, result.parts, result.notes) == ((), (), ())


@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("window", [1, 7, 1000])
def test_order_and_empty_lines_stay(batch: int, window: int) -> None:
    translator = made(options=TranslateOptions(batch=batch, window=window))
    lines = [*lines_of(40), "  ", "\t", "one"]
    found = translator(lines)
    assert [result.source for result in found] == lines
    assert [result.text for result in found] == [line.strip() for line in lines]
    assert isinstance(translator.runtime, Echo)
    assert max(translator.runtime.batches) <= batch


def test_batches_are_bounded_in_tokens() -> None:
    translator = made(options=TranslateOptions(batch_tokens=21))
    translator(
        [f"one two three {left} {right}" for left in WORDS[:5] for right in WORDS[:2]]
    )  # 7 tokens each
    assert isinstance(translator.runtime, Echo)
    assert translator.runtime.batches == [3, 3, 3, 1]


def test_a_stream_reads_ahead_no_more_than_a_window() -> None:
    translator = made(options=TranslateOptions(window=5))
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "one"

    stream = translator.stream(endless())
    for expected in (5, 5, 5, 5, 5, 10):
        assert next(stream).text == "one"
        assert read == expected


def test_what_was_read_before_an_error_is_translated() -> None:
    def broken() -> Iterator[str]:
        yield from ("one", "two")
        raise ValueError("line 3 is bad")

    stream = made().stream(broken())
    assert [next(stream).text, next(stream).text] == ["one", "two"]
    with pytest.raises(ValueError, match="line 3 is bad"):
        next(stream)


def test_long_texts_are_split_and_joined() -> None:
    text = "one two three four . five six , one two three four five six one . two !"
    result = made(longest=8)(text)
    assert result.text == text
    assert [part.source for part in result.parts] == [
        "one two three four .",
        "five six ,",
        "one two three four five six",
        "one .",
        "two !",
    ]
    assert result.score == math.fsum(part.score for part in result.parts)
    assert result.tree is None
    assert len(result.trees) == 5
    assert result.notes == ("split into 5 pieces: 20 tokens, but the model reads at most 8",)


def test_ten_thousand_words() -> None:
    text = " ".join(["one two three"] * 3334)
    assert made(longest=100)(text).text == text


def test_alternatives() -> None:
    translator = made(options=TranslateOptions(results=3))
    result = translator("one two three")
    assert [c.text for c in result.candidates] == ["one two three", "one two", "one"]
    assert [c.text for c in result.alternatives] == ["one two", "one"]
    long = translator("one two three four . two two two two .")
    assert [c.text for c in long.alternatives] == [
        "one two three four two two two two",
        "one two three two two two",
    ]


def test_samples_follow_the_seed() -> None:
    options = TranslateOptions(strategy="sample", results=2, seed=3)
    translator = made(options=options)
    first = translator(["one two", "three"])
    assert [len(result.candidates) for result in first] == [2, 2]
    assert translator(["one two", "three"]) == first
    assert translator(["three", "four", "one two"])[::2] == first[::-1]  # whatever else is translated
    assert translator.with_options(replace(options, batch=1))(["one two", "three"]) == first
    others = [made(options=replace(options, seed=seed))(["one two", "three"]) for seed in range(4, 9)]
    assert all(other != first for other in others)


def test_a_sweep_gives_all_texts_for_each_beta() -> None:
    lines = ["one two", "", "three four . five six one ."]
    columns = made(longest=6).sweep(lines, [1.0, -1.0])
    assert columns == [["one two", "", "three four . five six one ."], ["one", "", "three five"]]


def test_plain_data() -> None:
    data = made(options=TranslateOptions(results=2))("one two").to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["source"], data["text"], data["pieces"]) == ("one two", "one two", ["one", "two"])
    assert [row["word"] for row in data["tree"]["nodes"]] == ["<s>", "one", "two", "</s>"]
    assert [other["text"] for other in data["alternatives"]] == ["one"]
    assert "notes" not in data
    impossible = Translation("x", "y", -math.inf, ("y",))
    assert impossible.to_dict()["score"] is None
    assert Translation.empty(" ").to_dict() == {"source": " ", "text": "", "score": 0.0, "pieces": []}


def test_impossible_options_are_named() -> None:
    names = "viterbi, joint-viterbi, lookahead, greedy, sample, mbr"
    with pytest.raises(DecodingError, match=f"must be one of {names} for this model, got 'beam'"):
        made(options=TranslateOptions(strategy="beam"))
    with pytest.raises(DecodingError, match=r"unknown key 'viterbi.size'; valid keys: no_repeat"):
        made(options=TranslateOptions(strategy="viterbi:size=3"))
    for name in ("results", "batch", "batch_tokens", "window"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            from_dict(TranslateOptions, {name: 0})
    with pytest.raises(DecodingError, match="seed must not be negative, got -1"):
        made(options=TranslateOptions(seed=-1))
    with pytest.raises(DecodingError, match="length_penalty must be in -100 … 100, got nan"):
        made(options=TranslateOptions(length_penalty=math.nan))


def test_options_come_before_the_models_own_defaults() -> None:
    defaults = DecodingDefaults("greedy", length_penalty=0.5)
    translator = Translator(Echo(8, TOKENIZER.vocabulary_size), TOKENIZER, defaults)
    assert (translator.strategy.name, translator.request.length_penalty) == ("greedy", 0.5)
    assert translator.strategies == ("greedy", "viterbi", "joint-viterbi", "lookahead", "sample", "mbr")
    asked = translator.with_options(TranslateOptions(strategy="viterbi", length_penalty=1.5, seed=4))
    assert (asked.strategy, asked.request.length_penalty, asked.request.seed) == (Viterbi(), 1.5, 4)
    assert asked.runtime is translator.runtime


@settings(max_examples=40)
@given(st.text(st.sampled_from("ab ,.!?;:\u3002\uff0cA\u00a0\n"), max_size=200), st.integers(6, 30))
def test_pieces_fit_and_nothing_is_lost(text: str, limit: int) -> None:
    pieces = split_to_fit(text, LETTERS, limit)
    assert all(len(LETTERS.encode(piece)) <= limit for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


class Letters(SubwordTokenizer):  # type: ignore[misc]
    """A token for every letter, to cut inside words."""

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self.bos, *[self.unk] * len("".join(text.split())), self.eos] for text in texts]


LETTERS = Letters(b"a")


def test_cuts_are_made_where_it_hurts_least() -> None:
    def cut(text: str, limit: int) -> list[str]:
        return split_to_fit(text, LETTERS, limit)

    assert cut("Aaa bbb. Ccc, ddd eee.", 22) == ["Aaa bbb. Ccc, ddd eee."]
    assert cut("Aaa bbb. Ccc, ddd eee.", 18) == ["Aaa bbb.", "Ccc, ddd eee."]
    assert cut("Aaa bbb. Ccc, ddd eee.", 10) == ["Aaa bbb.", "Ccc,", "ddd eee."]
    assert cut("Aaa e.g. bbb ccc.", 12) == ["Aaa e.g.", "bbb ccc."]
    assert cut('He said: "No!" Then left.', 16) == ['He said: "No!"', "Then left."]
    assert cut("甲乙丙。丁戊己\uff01庚辛", 6) == ["甲乙丙。", "丁戊己\uff01", "庚辛"]
    assert cut("aaaaaaaaa", 6) == ["aaaa", "aa", "aaa"]
    with pytest.raises(ValueError, match="the model must take at least 3 tokens for 'a', got 2"):
        cut("aa", 2)


def files(prefix: Path, job: str = "j") -> GrowingFiles:
    return pair_files(prefix, ("a", "b"), {"job": job})


def test_distilling_goes_on_where_it_was(tmp_path: Path) -> None:
    lines = lines_of(25)
    translator = made()
    with files(tmp_path / "whole") as output:
        assert sum(map(len, distill(translator, lines, output, chunk_lines=4))) == 25
    whole = [(tmp_path / f"whole.{suffix}").read_text() for suffix in "ab"]
    assert whole == ["".join(f"{line}\n" for line in lines)] * 2

    for stop in (1, 3):
        with files(tmp_path / "cut") as output:
            chunks = distill(translator, lines, output, chunk_lines=4)
            for _ in range(stop):
                next(chunks)
        with (tmp_path / "cut.b.partial").open("a") as file:
            file.write("half a li")  # as after a crash between the files and their record
    with files(tmp_path / "cut") as output:
        assert output.progress.lines == 16
        assert sum(map(len, distill(translator, lines, output, chunk_lines=4))) == 9
    assert [(tmp_path / f"cut.{suffix}").read_text() for suffix in "ab"] == whole
    assert not list(tmp_path.glob("*.partial"))
    with files(tmp_path / "cut") as output:
        assert output.progress.complete


def test_distilling_refuses_another_job(tmp_path: Path) -> None:
    lines = lines_of(8)
    with files(tmp_path / "x") as output:
        next(distill(made(), lines, output, chunk_lines=4))
        with pytest.raises(ValueError, match="another process is writing"), files(tmp_path / "x"):
            pass
    with pytest.raises(ValueError, match="cannot resume: job changed from j to k; use another output"):
        files(tmp_path / "x", "k")
    with files(tmp_path / "x") as output, pytest.raises(ValueError, match="the first 4 lines of the source"):
        list(distill(made(), ["other", *lines[1:]], output))
    (tmp_path / "x.a.partial").write_text("")
    with (
        pytest.raises(ValueError, match=r"x\.a\.partial must have at least \d+ bytes to resume, got 0"),
        files(tmp_path / "x"),
    ):
        pass
    (tmp_path / "y.b").write_text("precious")
    with pytest.raises(ValueError, match=r"y\.b must not exist yet"):
        files(tmp_path / "y")


def test_samples_do_not_depend_on_interruptions(tmp_path: Path) -> None:
    lines, translator = lines_of(12), made(options=TranslateOptions(strategy="sample"))
    for name, stops in (("whole", [9]), ("cut", [1, 9])):
        for stop in stops:
            with files(tmp_path / name) as output:
                for _ in zip(range(stop), distill(translator, lines, output, chunk_lines=5), strict=False):
                    pass
    assert (tmp_path / "cut.b").read_bytes() == (tmp_path / "whole.b").read_bytes()
    assert replace(translator.options, results=1) == translator.options
