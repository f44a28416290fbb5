"""Tokenizers of split text that carry codes: raw text in and out, equal to the libraries themselves."""

import os
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacremoses import MosesDetokenizer

from pcfgnat.config import ConfigError
from pcfgnat.text import Prepared, PrepareSettings, SubwordTokenizer, TextPair, Tokenizer, prepare
from pcfgnat.text import pipeline as pipeline_module
from pcfgnat.text.lines import TextError
from pcfgnat.text.pipeline import MosesSettings, RawSteps
from pcfgnat.text.resplit import codes_warnings
from pcfgnat.text.tokenizer import CODES, DESCRIPTION
from tests.text.bilingual import write_lines
from tests.text.split_corpus import ENGLISH, GERMAN, split_corpus, tokenised

CORPUS = split_corpus()
RAW = CORPUS.tokenizer().for_raw_text()
AWKWARD = [
    *ENGLISH,
    "  tabs\tand   spaces\u00a0\u3000 ",
    "“Quotes” \u2013 \u2018single\u2019, «French» … and `these''",
    "a@@ b @-@ c && |pipe| [x] <b>bold</b> &amp; don\u2019t",
    "control\x07 char\u200b acters \u2028 here",
    "e-mail: a-b-c@x-y.org, http://x.org/a-b?c=d&e=f",
    "... .. . !!! ?? -- --- - -",
    "日本語 и по-русски 🍕",
    "U.S. No. 5 e.g. p.m. 3.5% 1,000,000 A.B.C.",
]


@pytest.mark.parametrize("moses", ["aggressive", "standard"])
def test_ids_are_those_of_the_libraries(moses: str) -> None:
    corpus, bpe = CORPUS.tokenizer(moses), CORPUS.bpe()
    split = [bpe.segment(tokenised(line, "en", moses == "aggressive")) for line in AWKWARD]
    assert corpus.for_raw_text().encode_all(AWKWARD) == corpus.encode_all(split)
    assert any("@-@" in line for line in split) == (moses == "aggressive")


def test_text_is_that_of_the_library() -> None:
    for line in CORPUS.german:
        ids = CORPUS.tokenizer().encode(line)
        words = CORPUS.tokenizer().decode(ids)
        assert words == line.replace("@@ ", "")
        assert RAW.decode(ids) == MosesDetokenizer("de").detokenize(words.split())
    for line in (GERMAN[1], GERMAN[3]):
        assert RAW.decode(RAW.encode(line)) == line


def test_without_moses_text_is_split_at_spaces() -> None:
    raw = CORPUS.tokenizer("").for_raw_text()
    line = tokenised(GERMAN[0], "de")
    assert raw.encode(f" {line}\t") == CORPUS.tokenizer().encode(CORPUS.german[0])
    assert raw.decode(raw.encode(line)) == line


def test_both_kinds_of_text_have_the_same_ids() -> None:
    corpus = CORPUS.tokenizer()
    assert RAW.encode_all(ENGLISH) == corpus.encode_all(CORPUS.english)
    assert RAW.encode(unicodedata.normalize("NFD", GERMAN[2])) == RAW.encode(GERMAN[2])
    assert corpus.unk not in RAW.encode("Bosthousn")  # merges that lead out of the vocabulary are reverted
    assert (RAW.takes_raw_text, corpus.takes_raw_text) == (True, False)
    assert RAW.for_raw_text() is RAW
    assert corpus.for_corpus_text() is corpus
    back = RAW.for_corpus_text()
    assert (back.encode_all(CORPUS.english), back.sha256) == (corpus.encode_all(CORPUS.english), RAW.sha256)
    plain = SubwordTokenizer(CORPUS.vocabulary)
    assert plain.for_raw_text() is plain.for_corpus_text() is plain
    with pytest.raises(ValueError, match=r"^raw text needs the steps that split the corpus, got none$"):
        SubwordTokenizer(CORPUS.vocabulary, raw=True)


@given(text=st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_encoded(text: str) -> None:
    ids = RAW.encode(text)
    assert (ids[0], ids[-1]) == (2, 3)
    RAW.decode(ids)


def test_endless_words_take_linear_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    word = "".join(chr(ord("a") + i * i % 23) for i in range(40_000))
    pieces = RAW.pieces(RAW.encode(word))[1:-1]
    assert all(piece.endswith("@@") or piece == "<unk>" for piece in pieces[:-1])
    assert RAW.decode(RAW.encode("abso" * 100)) == "abso" * 100
    monkeypatch.setattr(pipeline_module, "MAX_CACHED", 3)
    assert RAW.encode_all(ENGLISH * 2) == CORPUS.tokenizer().encode_all(CORPUS.english * 2)
    pipeline = RAW.pipeline
    assert pipeline is not None
    assert len(pipeline._bpe.cache) <= 4


@pytest.mark.parametrize(
    ("codes", "pieces"),
    [
        (b"#version: 0.2\na b\nab c</w>\n", ["ab@@", "c"]),  # abc is not a type: undone
        (b"#version: 0.2\na b\nab c</w>\nc </w>\n< /w>\n", ["<unk>"]),  # undoing would not end
        (b"#version: 0.2\na b\nab c</w>\nc< /w>\n< /w>\n", ["<unk>"]),
        (b"a b\nab c\nabc </w>\n", ["<unk>"]),  # version 0.1: an end of its own
    ],
)
def test_merges_are_undone_where_that_ends(codes: bytes, pieces: list[str]) -> None:
    raw = SubwordTokenizer(b"ab@@\nc\n", steps=RawSteps(codes)).for_raw_text()
    assert raw.pieces(raw.encode("abc"))[1:-1] == pieces


def test_a_directory_has_everything(tmp_path: Path) -> None:
    RAW.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CODES, DESCRIPTION, "vocabulary.txt"]
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.sha256, loaded.takes_raw_text) == (RAW.sha256, False)
    assert loaded.for_raw_text().encode_all(AWKWARD) == RAW.encode_all(AWKWARD)
    steps = RAW.steps
    assert steps is not None
    assert steps.moses == MosesSettings("en", "de", True)
    others = [None, replace(steps, moses=None), replace(steps, codes=steps.codes + b"q q\n")]
    others += [
        replace(steps, moses=MosesSettings("de", "en")),
        replace(steps, moses=MosesSettings("en", "de", False)),
    ]
    hashes = {RAW.sha256, *(SubwordTokenizer(CORPUS.vocabulary, steps=own).sha256 for own in others)}
    assert len(hashes) == 6


def test_a_directory_without_codes_stays_as_it_was(tmp_path: Path) -> None:
    tokenizer = SubwordTokenizer(CORPUS.vocabulary)
    tokenizer.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [DESCRIPTION, "vocabulary.txt"]
    assert "raw" not in (tmp_path / DESCRIPTION).read_text()
    old = Path(__file__).parents[1] / "checkpoints" / "format1" / "dag" / "tokenizer"
    for directory in (tmp_path, old):
        loaded = Tokenizer.load(directory)
        assert not loaded.takes_raw_text
        assert loaded.for_raw_text() is loaded


def test_damaged_directories(tmp_path: Path) -> None:
    RAW.save(tmp_path)
    codes = tmp_path / CODES
    codes.write_bytes(CORPUS.codes[:-3])
    with pytest.raises(TextError, match=rf"^{codes} is damaged: its sha256 must be \w+, got \w+$"):
        Tokenizer.load(tmp_path)
    codes.unlink()
    with pytest.raises(TextError, match=rf"^cannot read {codes}: No such file or directory$"):
        Tokenizer.load(tmp_path)
    os.mkfifo(codes)
    with pytest.raises(TextError, match=rf"^{codes} must be a regular file, got a pipe$"):
        Tokenizer.load(tmp_path)
    codes.unlink()
    codes.symlink_to("/dev/zero")
    with pytest.raises(TextError, match=rf"^{codes} must lie inside "):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (b"#version: 0.2\na b\nabc\n", r"codes line 3 must be two subwords and a space, got 'abc'"),
        (b"a b\n\nc d\n", r"codes line 2 must be two subwords and a space, got ''"),
        (b"a b c\n", r"codes line 1 must be two subwords and a space, got 'a b c'"),
        (b"#version: 0.3\na b\n", r"codes must have version 0\.1 or 0\.2, got '#version: 0\.3'"),
        (b"#version: 0.2\n", r"codes must have at least one merge, got none"),
        (b"", r"codes line 1 must be two subwords and a space, got ''"),
        (b"a b\n\xff c\n", r"codes line 2 must be UTF-8, got byte 0xff"),
    ],
)
def test_wrong_codes(codes: bytes, message: str) -> None:
    with pytest.raises(TextError, match=f"^{message}$"):
        RawSteps(codes)


def test_wrong_languages_and_descriptions(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"^target_language must be known for Moses' rules, got none$"):
        MosesSettings("en", "")
    message = r"^source_language must be written with spaces for Moses' rules, got 'zh-CN'$"
    with pytest.raises(ValueError, match=message):
        MosesSettings("zh-CN", "en")
    tokenizer.save(tmp_path)
    description = "\n".join((tmp_path / DESCRIPTION).read_text().splitlines()[1:])
    (tmp_path / DESCRIPTION).write_text(f'{description}\n[raw]\ncodes_sha256 = "0"\n')
    with pytest.raises(
        (ConfigError, TextError), match=r"raw must come with kind subwords, got sentencepiece$"
    ):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("module", ["sacremoses", "subword_nmt.apply_bpe"])
def test_what_is_not_installed(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_both = RAW.encode_all(ENGLISH)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        TextError, match=r"needs sacremoses and subword-nmt: pip install 'pcfgnat\[subword\]'"
    ):
        CORPUS.tokenizer().for_raw_text().encode("a house")
    assert CORPUS.tokenizer().encode_all(CORPUS.english) == with_both


def settings_of(root: Path) -> PrepareSettings:
    pair = TextPair(write_lines(root / "t.en", CORPUS.english), write_lines(root / "t.de", CORPUS.german))
    (root / "codes").write_bytes(CORPUS.codes)
    types, codes = write_lines(root / "types", CORPUS.types), root / "codes"
    return PrepareSettings(
        root / "out", (pair,), pair, None, "en", "de",
        subword_vocabulary=types, subword_codes=codes, moses="aggressive",
    )  # fmt: skip


def test_prepare_stores_the_steps(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    prepare(settings)
    prepared = Prepared.open(tmp_path / "out")
    assert prepared.tokenizer.sha256 == RAW.sha256
    sources = [source.tolist() for source, _ in prepared.corpus("train")]
    assert sources == prepared.tokenizer.for_raw_text().encode_all(ENGLISH)
    assert prepared.raw("valid")[1] == [tokenised(line, "de") for line in GERMAN]
    assert list(codes_warnings(settings)) == []
    (tmp_path / "codes").write_bytes(b"#version: 0.2\no u\n")
    warnings = list(codes_warnings(settings))
    assert [warning.partition(" splits ")[2] for warning in warnings] == [
        f"5 of 5 lines of {tmp_path}/t.{side} otherwise: use the codes that the text was split with"
        for side in ("en", "de")
    ]
    assert list(codes_warnings(replace(settings, subword_codes=None, moses=None))) == []


def test_settings_that_do_not_go_together(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    message = r"^subword_codes must come with subword_vocabulary, got none$"
    with pytest.raises(ValueError, match=message):
        replace(settings, subword_vocabulary=None)
    with pytest.raises(ValueError, match=r"^moses must come with subword_codes, got none$"):
        replace(settings, subword_codes=None)
    with pytest.raises(ValueError, match=r"^source_language must be known for Moses' rules, got none$"):
        prepare(replace(settings, source_language=""))
    assert not (tmp_path / "out").exists()
