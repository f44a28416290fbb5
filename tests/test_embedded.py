"""The model that comes with the package: small, attributed, and able to translate."""

import shutil
import sys
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import WEIGHTS, Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes import choice
from pcfgnat.runtimes.onnx import Exported
from pcfgnat.translator import Translator, bundled_model, loading
from pcfgnat.translator.facts import model_facts

MEGABYTE = 2**20


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load()


def shipped() -> list[Path]:
    """What a wheel has of it; pyproject.toml leaves the weights for torch out."""
    return [path for path in bundled_model().rglob("*") if path.is_file() and path.name != WEIGHTS]


def test_is_small() -> None:
    assert sum(path.stat().st_size for path in shipped()) < 20 * MEGABYTE


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The bundled model as a wheel has it."""
    for path in shipped():
        copy = tmp_path / path.relative_to(bundled_model())
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def test_does_without_weights_for_torch(installed: Path) -> None:
    assert Translator.load(installed)("I am tired.").text == Translator.load()("I am tired.").text
    with pytest.raises(
        CheckpointError, match=r"has no model.safetensors for torch, only an exported model: run it on onnx"
    ):
        Translator.load(installed, runtime="torch")


def test_is_described_without_weights_for_torch(installed: Path) -> None:
    facts = model_facts(installed)
    assert (facts["network"], facts["runs on"]) == ("pcfg", "native kernels")
    assert facts["languages"] == {"source": "en", "target": "de"}


def test_does_without_torch_and_onnxruntime(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Translator.load()("I am tired.").text
    for package in ("onnxruntime", "torch"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(loading, "onnxruntime_is_installed", lambda: False)
    monkeypatch.setattr(choice, "onnxruntime_is_installed", lambda: False)
    assert Translator.load(installed)("I am tired.").text == expected
    with pytest.raises(CheckpointError, match=r"needs onnxruntime: pip install 'pcfgnat\[onnx\]'"):
        Translator.load(installed, runtime="onnx")


def test_says_what_it_is() -> None:
    metadata = Checkpoint.open(bundled_model()).metadata
    assert metadata.network_name == "pcfg"
    assert (metadata.languages.source, metadata.languages.target) == ("en", "de")
    card = (bundled_model() / "README.md").read_text(encoding="utf-8")
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
