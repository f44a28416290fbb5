import io
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.config import ConfigError
from pcfgnat.text.lines import TextError
from pcfgnat.text.tokenizer import LearnSettings, SentencePieceTokenizer, SubwordTokenizer, Tokenizer
from tests.text.bilingual import COMMA, sentences, tree
from tests.text.conftest import LEARN

TEXTS = [text for pair in sentences(400) for text in pair]
SUBWORDS = SubwordTokenizer("grö@@ 7\nßer 5\nBären 3\n的 2\n".encode())


def test_text_comes_back(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.vocabulary_size == LEARN.vocabulary_size
    for text, ids in zip(TEXTS[:100], tokenizer.encode_all(TEXTS[:100]), strict=True):
        assert ids == tokenizer.encode(text)
        assert (ids[0], ids[-1]) == (tokenizer.bos, tokenizer.eos)
        assert not {tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos} & set(ids[1:-1])
        assert tokenizer.decode(ids) == text
        assert "".join(tokenizer.pieces(ids)[1:-1]).replace("▁", " ").strip() == text


def test_special_ids(tokenizer: SentencePieceTokenizer) -> None:
    for each in (tokenizer, SUBWORDS):
        assert (each.pad, each.unk, each.bos, each.eos) == (0, 1, 2, 3)
        assert each.pieces([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
        assert each.decode([2, 0, 1, 3]) == ""
        assert each.encode("") == each.encode(" \t\u3000\u00a0") == [2, 3]
        assert not {0, 2, 3} & set(each.encode("<pad> <s> </s> <unk>")[1:-1])


def test_unknown_characters_are_unknown_or_bytes(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.unk in tokenizer.encode("heute ☃")
    assert tokenizer.decode(tokenizer.encode("heute ☃ 今天")) == "heute 今天"
    settings = LearnSettings(vocabulary_size=600, byte_fallback=True)
    bytewise = SentencePieceTokenizer.learn(TEXTS, settings)
    ids = bytewise.encode("heute ☃🙂")
    assert bytewise.unk not in ids
    assert bytewise.decode(ids) == "heute ☃🙂"
    assert "�" in bytewise.decode(ids[:-2])  # a character cut in the middle


def test_text_is_composed_and_spaced(tokenizer: SentencePieceTokenizer) -> None:
    loose = unicodedata.normalize("NFD", "  Das\u00a0Mädchen \t übt. ")
    assert tokenizer.encode(loose) == tokenizer.encode("Das Mädchen übt.")
    wide = f"今天{COMMA}晚上。"
    assert tokenizer.decode(tokenizer.encode(wide)) == wide
    normalising = SentencePieceTokenizer.learn(TEXTS, LearnSettings(300, normalization="nmt_nfkc"))
    assert normalising.decode(normalising.encode(wide)) == "今天,晚上。"


@given(text=st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_encoded(tokenizer: SentencePieceTokenizer, text: str) -> None:
    for each in (tokenizer, SUBWORDS):
        ids = each.encode(text)
        assert (ids[0], ids[-1]) == (2, 3)
        assert all(0 <= token < each.vocabulary_size for token in ids)
        each.decode(ids)


def test_arrays_are_decoded(tokenizer: SentencePieceTokenizer) -> None:
    ids = np.array(tokenizer.encode(TEXTS[0]), np.uint16)
    assert tokenizer.decode(ids) == TEXTS[0]
    for wrong in (-1, 300):
        with pytest.raises(ValueError, match=rf"^ids must be in 0 … 299, got {wrong}$"):
            tokenizer.decode([5, wrong])
        with pytest.raises(ValueError, match=rf"^ids must be in 0 … 299, got {wrong}$"):
            tokenizer.pieces([5, wrong])


def test_learning_repeats(tokenizer: SentencePieceTokenizer) -> None:
    assert SentencePieceTokenizer.learn(TEXTS, LEARN).sha256 == tokenizer.sha256


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        (
            TEXTS[:4],
            LearnSettings(9000),
            r"^vocabulary_size must be at most \d+ for so little text, got 9000$",
        ),
        (
            TEXTS,
            LearnSettings(50),
            r"^vocabulary_size must be at least \d+ for the characters of this text, got 50; "
            r"or lower character_coverage, now 0.99999$",
        ),
        ([" ", "\t"], LEARN, "^there must be text to learn a tokenizer from, got none$"),
    ],
)
def test_what_cannot_be_learnt_is_told(texts: list[str], settings: LearnSettings, message: str) -> None:
    with pytest.raises(TextError, match=message):
        SentencePieceTokenizer.learn(texts, settings)


def test_wrong_settings_are_told() -> None:
    for settings, message in (
        ({"vocabulary_size": 4}, "vocabulary_size must be at least 5, got 4"),
        ({"character_coverage": 1.5}, r"character_coverage must be in 0\.5 … 1, got 1\.5"),
        ({"sample_size": 0}, "sample_size must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=f"^{message}$"):
            LearnSettings(**settings)


def test_subwords() -> None:
    assert SUBWORDS.vocabulary_size == 8
    assert SUBWORDS.encode("grö@@ ßer Bären 的 neu <s>") == [2, 4, 5, 6, 7, 1, 1, 3]
    assert SUBWORDS.pieces([4, 5]) == ["grö@@", "ßer"]
    assert SUBWORDS.decode([2, 4, 5, 6, 1, 7, 3]) == "größer Bären 的"
    assert SUBWORDS.decode([4]) == "grö"
    assert SUBWORDS.plain("grö@@ ßer neu@@ er Bä@@") == "größer neuer Bä"


@pytest.mark.parametrize(
    "content",
    [
        "a\nb@@\nc\n",
        "a 3\nb@@ 2\nc 1",
        "\ufeffa\r\nb@@\r\nc\r\n",
        "<s>\n<pad>\n</s>\n<unk>\na\nb@@\nc\n",
        "a 3 #fairseq:overwrite\nb@@ 2\nc 0",
    ],
)
def test_vocabulary_files(content: str) -> None:
    assert SubwordTokenizer(content.encode()).encode("a b@@ c") == [2, 4, 5, 6, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\nb\n", "{path} line 2 must be a type, or a type and its count, got ''"),
        (b"", "{path} line 1 must be a type, or a type and its count, got ''"),
        (b"a b\n", "{path} line 1 must be a type, or a type and its count, got 'a b'"),
        (b"a 1\nb 1\na 2\n", "{path} line 3 repeats 'a' of line 1"),
        (b"a\n\xff\n", "{path} line 2 must be UTF-8, got byte 0xff"),
    ],
)
def test_broken_vocabularies_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    with pytest.raises(TextError) as caught:
        SubwordTokenizer.from_file(path)
    assert str(caught.value) == message.format(path=path)


def test_it_can_be_saved(tmp_path: Path, tokenizer: SentencePieceTokenizer) -> None:
    for name, each in (("a", tokenizer), ("b", SUBWORDS)):
        each.save(tmp_path / name)
        loaded = Tokenizer.load(tmp_path / name)
        assert type(loaded) is type(each)
        assert loaded.sha256 == each.sha256
        assert loaded.encode("grö@@ ßer Bären") == each.encode("grö@@ ßer Bären")
        loaded.save(tmp_path / "again" / name)
    assert tree(tmp_path / "again" / "a") == tree(tmp_path / "a")
    assert sorted(tree(tmp_path / "a")) == ["tokenizer.model", "tokenizer.toml"]


def test_damaged_tokenizers_are_named(tmp_path: Path, tokenizer: SentencePieceTokenizer) -> None:
    tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer.model"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(TextError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value).startswith(f"{path} is damaged: its sha256 must be {tokenizer.sha256}, got ")
    for broken in (whole[:-1], b"", b"rubbish"):
        path.write_bytes(broken)
        with pytest.raises(TextError) as caught:
            SentencePieceTokenizer.from_file(path)
        assert str(caught.value) == f"{path} is not a sentencepiece model, or is damaged"
    path.unlink()
    with pytest.raises(TextError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value) == f"cannot read {path}: No such file or directory"
    (tmp_path / "tokenizer.toml").write_text('kind = "x"\nvocabulary_size = 3\nsha256 = ""\n')
    with pytest.raises(ConfigError) as config_error:
        Tokenizer.load(tmp_path)
    description = tmp_path / "tokenizer.toml"
    assert (
        str(config_error.value) == f"{description}: kind must be one of 'sentencepiece', 'subwords', got 'x'"
    )


def test_models_with_other_special_ids_are_refused(tmp_path: Path) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=300, model_type="bpe", minloglevel=2
    )
    path = tmp_path / "other.model"
    path.write_bytes(model.getvalue())
    with pytest.raises(TextError) as caught:
        SentencePieceTokenizer.from_file(path)
    assert str(caught.value) == f"{path} must have pad, unk, bos, eos = (0, 1, 2, 3), got (-1, 0, 1, 2)"


def test_many_accents_take_linear_time(tokenizer: SentencePieceTokenizer) -> None:
    text = "a" + "\u0300\u0316" * 300_000  # Unicode's normal form sorts them
    assert len(tokenizer.encode(text)) > 2


def test_few_accents_are_composed_in_long_texts_too(tokenizer: SentencePieceTokenizer) -> None:
    assert tokenizer.encode("u\u0308 " * 600) == tokenizer.encode("ü " * 600)


def test_no_threads_are_started(tokenizer: SentencePieceTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    encode = tokenizer._processor.encode

    def watched(text: str, add_bos: bool, add_eos: bool) -> object:
        given.append(text)
        return encode(text, add_bos=add_bos, add_eos=add_eos)

    monkeypatch.setattr(tokenizer._processor, "encode", watched)
    tokenizer.encode_all(["one", "two"])
    assert given == ["one", "two"]
