"""`pcfgnat evaluate --tune-on valid --store`: the β that was found becomes the model's own."""

import re
import shutil
from pathlib import Path

import pytest

from pcfgnat.checkpoints.checkpoint import Checkpoint, describe, save_checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError, DecodingDefaults
from pcfgnat.checkpoints.storing import store_length_penalty
from pcfgnat.cli import main
from pcfgnat.decoding import Viterbi
from pcfgnat.evaluation.report import SweepPoint
from pcfgnat.export.onnx import export_onnx
from pcfgnat.networks import HybridConfig, HybridNetwork
from pcfgnat.runtimes.exported import Exported
from pcfgnat.translator import Translator
from tests.cli.conftest import World
from tests.runtimes.models import SHALLOW
from tests.text.bilingual import tree

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(world: World, tmp_path: Path) -> Path:
    """A checkpoint with the same model exported inside."""
    shutil.copytree(world.grammar, tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "model" / "onnx")
    return tmp_path / "model"


def test_it_is_stored_in_the_checkpoint_and_in_its_export(world: World, model: Path, capsys: Capture) -> None:
    before = Checkpoint.open(model).metadata
    options = [
        "--data",
        str(world.prepared),
        "--tune-on",
        "valid",
        "--sweep",
        "0.7",
        "--store",
        "--limit",
        "2",
    ]
    assert main(["evaluate", str(model), *options]) == 0
    assert f"stored β = 0.7 in {model}" in capsys.readouterr().err
    checkpoint, exported = Checkpoint.open(model), Exported.open(model / "onnx")
    assert checkpoint.metadata.decoding.length_penalty == exported.metadata.decoding.length_penalty == 0.7
    assert checkpoint.metadata.decoding.strategy == before.decoding.strategy
    assert checkpoint.weights()
    for card in (model / "README.md", model / "onnx" / "README.md"):
        assert "- length penalty: 0.7\n" in card.read_text()
    assert Translator.load(model).request.length_penalty == 0.7
    assert Translator.load(model, runtime="torch").request.length_penalty == 0.7
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_the_weight_of_rescore_is_stored_with_its_strategy(
    world: World, tmp_path: Path, capsys: Capture
) -> None:
    place, tokenizer = tmp_path / "model", Checkpoint.open(world.grammar).tokenizer
    network = HybridNetwork(HybridConfig(SHALLOW, upsampling=2), tokenizer.vocabulary_size)
    metadata = describe("hybrid", network.config, network.vocabulary, DecodingDefaults("verify"))
    save_checkpoint(place, network, tokenizer, metadata)
    options = ["--data", str(world.prepared), "--tune-on", "valid", "--sweep", "0.7", "--limit", "2"]
    decode = ["--decode", "rescore:size=2"]
    assert main(["evaluate", str(place), *options, *decode, "--store"]) == 0
    stored = Checkpoint.open(place).metadata.decoding
    assert re.fullmatch(r"rescore:size=2,weight=[01]\.\d,verify=true", stored.strategy)
    assert stored.length_penalty == 0.7
    assert f"stored β = 0.7 and {stored.strategy} in {place}" in capsys.readouterr().err
    assert f"- strategy: {stored.strategy}\n" in (place / "README.md").read_text()
    assert Translator.load(place).strategy.name == "rescore"
    pair = ["--verifier", str(world.teacher), "--store"]
    assert main(["evaluate", str(place), *options, *pair]) != 0
    assert "--store must come without --verifier" in capsys.readouterr().err


@pytest.mark.parametrize("helps", [True, False])
def test_no_repeat_is_stored_where_it_helps(
    helps: bool, world: World, model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swept(translator: Translator, *others: object) -> tuple[SweepPoint, ...]:
        assert isinstance(translator.strategy, Viterbi)
        return (SweepPoint(0.7, 20.0 + (translator.strategy.no_repeat == helps), 1.0),)

    monkeypatch.setattr("pcfgnat.evaluation.comparison.swept", swept)
    options = ["--data", str(world.prepared), "--tune-on", "valid", "--sweep", "0.7", "--limit", "2"]
    assert main(["evaluate", str(model), *options, "--store"]) == 0
    assert "no_repeat varied on valid" in capsys.readouterr().out
    wanted = "viterbi:no_repeat=true" if helps else "viterbi"
    assert Checkpoint.open(model).metadata.decoding.strategy == wanted
    assert Exported.open(model / "onnx").metadata.decoding.strategy == wanted
    assert Translator.load(model).strategy == Viterbi(no_repeat=helps)
    assert main(["evaluate", str(model), *options, "--decode", "viterbi"]) == 0  # what is asked for stays
    assert "no_repeat varied" not in capsys.readouterr().out


def test_an_exported_model_alone(model: Path) -> None:
    store_length_penalty(model / "onnx", 1.3)
    assert Exported.open(model / "onnx").metadata.decoding.length_penalty == 1.3
    assert Checkpoint.open(model).metadata.decoding.length_penalty == 1.0


def test_a_link_to_a_checkpoint_stays_one(model: Path) -> None:
    link = model.with_name("best")
    link.symlink_to(model)
    store_length_penalty(link, 1.2)
    assert link.is_symlink()
    assert Checkpoint.open(model).metadata.decoding.length_penalty == 1.2


@pytest.mark.parametrize("value", [float("nan"), 1e4])
def test_what_cannot_be_stored_changes_nothing(model: Path, value: float) -> None:
    before = tree(model)
    with pytest.raises(ValueError, match="length_penalty must be in -100 … 100"):
        store_length_penalty(model, value)
    assert tree(model) == before


def test_a_full_disk_changes_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(model)

    def full(path: Path) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pcfgnat.checkpoints.storing.sha256_of", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        store_length_penalty(model, 0.5)
    assert tree(model) == before


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="must be a checkpoint or an exported model"):
        store_length_penalty(tmp_path, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--store"], "--store must come with --tune-on"),
        (
            ["--store", "--tune-on", "valid", "--decode", "greedy"],
            "--store must come without --decode, other than rescore",
        ),
    ],
)
def test_refused(world: World, options: list[str], message: str, capsys: Capture) -> None:
    assert main(["evaluate", str(world.grammar), "--data", str(world.prepared), *options]) != 0
    assert message in capsys.readouterr().err
