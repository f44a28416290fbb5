import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.config import ConfigError, to_dict
from pcfgnat.storage.toml import dump_toml, load_config, load_toml
from pcfgnat.text.cleaning import CleaningSettings
from pcfgnat.text.lexicon import learn_shortlist
from pcfgnat.text.lines import TextError, TextPair
from pcfgnat.text.prepare import PrepareSettings, prepare
from pcfgnat.text.prepared import Prepared, Split
from pcfgnat.text.tokenizer import LearnSettings, SentencePieceTokenizer, SubwordTokenizer
from tests.text.bilingual import sentences, tree, write_lines, write_pair

TRAIN, VALID, TEST = sentences(400), sentences(20, seed=1), sentences(10, seed=2)


@pytest.fixture
def settings(tmp_path: Path) -> PrepareSettings:
    return PrepareSettings(
        output=tmp_path / "out",
        train=(
            write_pair(tmp_path, "one", TRAIN[:300]),
            write_pair(tmp_path, "two", TRAIN[300:], packed=True),
        ),
        valid=write_pair(tmp_path, "valid", VALID),
        test=write_pair(tmp_path, "test", TEST, packed=True),
        source_language="de",
        target_language="zh",
        learn=LearnSettings(vocabulary_size=300),
    )


def decoded(prepared: Prepared, split: Split) -> list[tuple[str, str]]:
    return [
        (prepared.tokenizer.decode(source), prepared.tokenizer.decode(target))
        for source, target in prepared.corpus(split)
    ]


def test_everything_is_there(settings: PrepareSettings) -> None:
    report = prepare(settings)
    prepared = Prepared.open(settings.output)
    assert prepared.report == report
    assert decoded(prepared, "train") == TRAIN
    assert decoded(prepared, "valid") == VALID
    assert prepared.raw("valid") == tuple(map(list, zip(*VALID, strict=True)))
    assert prepared.raw("test") == tuple(map(list, zip(*TEST, strict=True)))
    prepared.verify()
    assert report.train.source.files == tuple(str(pair.source) for pair in settings.train)
    assert report.train.source.tokens == prepared.corpus("train").source_lengths.sum()
    assert report.train.target.longest == prepared.corpus("train").target_lengths.max()
    assert report.settings["source_language"] == "de"
    assert "output" not in report.settings
    corpus = ["corpus.toml", "source.ids", "source.offsets", "target.ids", "target.offsets"]
    raw = ["source.txt", "target.txt"]
    assert sorted(tree(settings.output)) == sorted(
        [
            "report.toml",
            "tokenizer/tokenizer.model",
            "tokenizer/tokenizer.toml",
            *(f"train/{name}" for name in corpus),
            *(f"{split}/{name}" for split in ("valid", "test") for name in (*corpus, *raw)),
        ]
    )


def test_two_runs_give_the_same_bytes(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings)
    prepare(replace(settings, output=tmp_path / "again"))
    assert tree(settings.output) == tree(tmp_path / "again")


def test_compression_makes_no_difference(tmp_path: Path) -> None:
    learn = LearnSettings(300)
    for name, packed in (("a", False), ("b", True)):
        pair = write_pair(tmp_path, name, TRAIN, packed)
        prepare(PrepareSettings(tmp_path / f"out-{name}", (pair,), pair, learn=learn))
    plain, packed_tree = tree(tmp_path / "out-a"), tree(tmp_path / "out-b")
    assert {name for name in plain if plain[name] != packed_tree[name]} == {"report.toml"}
    hashes = [
        load_toml(tmp_path / out / "report.toml")["train"]["source"]["sha256"] for out in ("out-a", "out-b")
    ]
    assert hashes[0] == hashes[1]


def test_a_bounded_sample_is_learnt_from(settings: PrepareSettings, tmp_path: Path) -> None:
    sizes = {}
    for name, sample, seed in (("a", 150, 1), ("b", 150, 1), ("c", 150, 2), ("d", 10**6, 1)):
        learn = LearnSettings(200, sample_size=sample, seed=seed)
        prepare(replace(settings, output=tmp_path / name, learn=learn))
        sizes[name] = Prepared.open(tmp_path / name).tokenizer.sha256
    assert sizes["a"] == sizes["b"]
    assert len(set(sizes.values())) == 3


def cleaned(tmp_path: Path, pairs: list[tuple[str, str]], cleaning: CleaningSettings) -> Prepared:
    vocabulary = write_lines(tmp_path / "types", ["a", "b", "c", "d"])
    text = write_pair(tmp_path, "text", pairs)
    prepare(
        PrepareSettings(
            tmp_path / "out", (text,), valid=text, subword_vocabulary=vocabulary, cleaning=cleaning
        )
    )
    return Prepared.open(tmp_path / "out")


def test_cleaning(tmp_path: Path) -> None:
    good = [("a b", "b a"), ("a b c", "d"), ("a a a a a a", "b b")]
    pairs = [
        *good,
        ("", "a"),
        ("a", " \u3000"),
        ("a b", "a b "),
        (" a b", "b a"),
        ("a a a a a a a", "a a a a a a"),
        ("a a a a a a", "b"),
        ("", ""),
        ("b a", "a b"),
    ]
    cleaning = CleaningSettings(max_length=8, max_ratio=2.0, drop_identical=True, drop_duplicates=True)
    prepared = cleaned(tmp_path, pairs, cleaning)
    report = prepared.report
    assert report.train.dropped == {
        "duplicate": 1,
        "empty": 3,
        "identical": 1,
        "length_ratio": 1,
        "too_long": 1,
    }
    assert (report.train.read, report.train.kept) == (11, 4)
    assert decoded(prepared, "train") == [*good, ("b a", "a b")]
    assert report.valid is not None
    assert (report.valid.read, report.valid.kept, report.valid.dropped) == (11, 11, {})
    assert report.valid.doubtful == {"empty": 3, "identical": 1, "length_ratio": 1, "too_long": 1}
    assert prepared.raw("valid")[0] == [source for source, _ in pairs]
    assert (
        str(report)
        .splitlines()[1]
        .startswith("train: 11 pairs read, 4 kept; dropped duplicate: 1; dropped empty: 3; ")
    )
    assert "kept though too long: 1" in str(report)


def test_little_is_dropped_by_default(tmp_path: Path) -> None:
    pairs = [("a b", "b a"), ("a b", "b a"), ("a", "a"), ("a", "a b c d a b c d a b"), ("", "a")]
    assert cleaned(tmp_path, pairs, CleaningSettings()).report.train.dropped == {"empty": 1}


def test_split_text_with_a_vocabulary(tmp_path: Path) -> None:
    vocabulary = write_lines(tmp_path / "dict.txt", ["grö@@ 9", "ßer 8", "Bär 7", "的 6"])
    pairs = [("grö@@ ßer Bär", "的 neu@@ er"), ("Bär", "的")]
    text = write_pair(tmp_path, "text", pairs)
    report = prepare(PrepareSettings(tmp_path / "out", (text,), test=text, subword_vocabulary=vocabulary))
    prepared = Prepared.open(tmp_path / "out")
    assert isinstance(prepared.tokenizer, SubwordTokenizer)
    assert [source.tolist() for source, _ in prepared.corpus("train")] == [[2, 4, 5, 6, 3], [2, 6, 3]]
    assert [target.tolist() for _, target in prepared.corpus("train")] == [[2, 7, 1, 1, 3], [2, 7, 3]]
    assert (report.train.source.unknown, report.train.target.unknown) == (0, 2)
    assert prepared.raw("test") == (["größer Bär", "Bär"], ["的 neuer", "的"])


def test_a_given_tokenizer(
    settings: PrepareSettings, tmp_path: Path, tokenizer: SentencePieceTokenizer
) -> None:
    tokenizer.save(tmp_path / "given")
    given = tmp_path / "given"
    for name, path in (("a", given), ("b", given / "tokenizer.model"), ("c", tmp_path / "a")):
        prepare(replace(settings, output=tmp_path / name, tokenizer=path))
        assert Prepared.open(tmp_path / name).tokenizer.sha256 == tokenizer.sha256
        assert decoded(Prepared.open(tmp_path / name), "train") == TRAIN


def test_splits_that_are_not_there(settings: PrepareSettings) -> None:
    prepare(replace(settings, valid=None))
    prepared = Prepared.open(settings.output)
    assert list(prepared.report.splits) == ["train", "test"]
    with pytest.raises(TextError) as caught:
        prepared.corpus("valid")
    assert str(caught.value) == f"{settings.output} has no valid data, only train, test"


def test_settings_are_plain_text(settings: PrepareSettings, tmp_path: Path) -> None:
    path = tmp_path / "prepare.toml"
    path.write_text(dump_toml(to_dict(settings)), encoding="utf-8")
    assert load_config(PrepareSettings, path) == settings
    with pytest.raises(ConfigError) as caught:
        load_config(PrepareSettings, path, ["cleaning.max_length=2"])
    assert str(caught.value) == f"{path}: cleaning.max_length must be at least 3, got 2"


def test_wrong_settings_are_told(tmp_path: Path) -> None:
    pair = TextPair(tmp_path, tmp_path)
    with pytest.raises(ValueError, match=r"^train must name at least one pair of files, got none$"):
        PrepareSettings(tmp_path, ())
    with pytest.raises(
        ValueError, match=r"^only one of tokenizer and subword_vocabulary may be given, got both$"
    ):
        PrepareSettings(tmp_path, (pair,), tokenizer=tmp_path, subword_vocabulary=tmp_path)
    with pytest.raises(ValueError, match=r"^max_ratio must be at least 1, got nan$"):
        CleaningSettings(max_ratio=float("nan"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_progress_is_for_terminals(
    settings: PrepareSettings, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    prepare(settings)
    shown = stream.getvalue()
    assert all(label in shown for label in ("reading train", "encoding train", "B/s")) == stream.isatty()
    assert bool(shown) == stream.isatty()


def test_a_shortlist_is_learnt_if_wanted(settings: PrepareSettings, tmp_path: Path) -> None:
    prepare(settings)
    assert Prepared.open(settings.output).shortlist() is None
    wanted = replace(settings, output=tmp_path / "wanted", shortlist=True)
    prepare(wanted)
    prepared = Prepared.open(wanted.output)
    found, expected = prepared.shortlist(), learn_shortlist(prepared.corpus("train"))
    assert found is not None
    source = prepared.tokenizer.encode(TRAIN[0][0])
    assert found.types(source).tolist() == expected.types(source).tolist()
    prepared.verify()
    path = wanted.output / "shortlist.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TextError, match="is damaged: its sha256 must be"):
        prepared.verify()
    path.unlink()
    with pytest.raises(TextError, match="is missing, but according to the report it was learnt"):
        prepared.shortlist()


def test_damage_is_found(
    settings: PrepareSettings, tmp_path: Path, tokenizer: SentencePieceTokenizer
) -> None:
    with pytest.raises(TextError) as caught:
        Prepared.open(tmp_path)
    assert str(caught.value) == f"{tmp_path} must be a prepared directory, but it has no report.toml"
    prepare(settings)
    out = settings.output
    prepared = Prepared.open(out)
    write_lines(out / "valid" / "source.txt", ["x"])
    with pytest.raises(TextError) as caught:
        prepared.raw("valid")
    assert str(caught.value).startswith(f"{out / 'valid' / 'source.txt'} is damaged: its sha256 must be ")
    old = replace(prepared.report.splits["valid"], raw_sha256=())  # as it was before there were checksums
    with pytest.raises(TextError) as caught:
        replace(prepared, report=replace(prepared.report, valid=old)).raw("valid")
    assert str(caught.value) == f"the raw text in {out / 'valid'} must have 20 lines, got 1 and 20"
    (out / "valid").rename(out / "aside")
    (out / "test").rename(out / "valid")
    with pytest.raises(TextError) as caught:
        prepared.corpus("valid")
    message = f"{out / 'valid'} must have 20 pairs and 300 tokens, got 10 and 300"
    assert str(caught.value) == message
    SubwordTokenizer(b"a\n").save(out / "tokenizer")
    with pytest.raises(TextError) as caught:
        Prepared.open(out)
    assert str(caught.value) == f"{out}: the tokenizer is not the one that the corpora were made with"
