"""The model that comes with the package: small, attributed, and able to translate."""

from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.runtimes.onnx import Exported
from pcfgnat.translator import Translator, bundled_model

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load()


def test_is_small() -> None:
    files = [path for path in Path(bundled_model()).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20 * MEGABYTE


def test_says_what_it_is() -> None:
    metadata = Checkpoint.open(bundled_model()).metadata
    assert metadata.network_name == "pcfg"
    assert (metadata.languages.source, metadata.languages.target) == ("en", "de")
    card = (Path(bundled_model()) / "README.md").read_text(encoding="utf-8")
    assert "tatoeba.org" in card
    assert "CC-BY 2.0 FR" in card


def test_is_of_the_newest_format_and_so_is_its_export() -> None:
    assert "\nformat = 2\n" in (bundled_model() / "checkpoint.toml").read_text(encoding="utf-8")
    checkpoint, exported = Checkpoint.open(bundled_model()), Exported.open(bundled_model() / "onnx")
    assert exported.metadata.origin_sha256 == checkpoint.metadata.weights_sha256
    assert exported.metadata.network == checkpoint.metadata.network
    assert exported.metadata.decoding == checkpoint.metadata.decoding
    assert exported.tokenizer.sha256 == checkpoint.tokenizer.sha256


@pytest.mark.parametrize(
    ("english", "words"),
    [
        ("Where is the train station?", {"Wo", "ist", "Bahnhof"}),
        ("I am tired.", {"Ich", "bin", "müde"}),
        ("The book is on the table.", {"Buch", "auf", "dem", "Tisch"}),
    ],
)
def test_translates(translator: Translator, english: str, words: set[str]) -> None:
    translation = translator(english)
    assert words <= set(translation.text.replace("?", " ").replace(".", " ").split())
    assert translation.tree is not None
    assert translation.tree.log_prob == pytest.approx(translation.score)


def test_keeps_what_is_empty_and_survives_what_it_never_saw(translator: Translator) -> None:
    texts = ["", "   ", "☃ 漢字 ꙮ", "word " * 500]
    translations = translator(texts)
    assert [translation.text for translation in translations[:2]] == ["", ""]
    assert all(translation.text for translation in translations[2:])
    assert translations[3].notes
