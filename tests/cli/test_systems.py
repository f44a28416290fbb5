"""What the systems cannot do is said in one line: strategies, their settings, and models that do not fit."""

import json
import re
from pathlib import Path

import pytest

from pcfgnat.cli import main
from pcfgnat.storage.toml import dump_toml, load_toml
from tests.cli.conftest import World
from tests.cli.test_train import SMALL, error
from tests.runtimes.models import save_model

Capture = pytest.CaptureFixture[str]
SLOTS = "the strategy must be one of greedy, sample, mask-predict, update-all for this model, got "


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("systems")
    for name in ("slots", "imputer", "disco", "flowseq", "autoregressive"):
        save_model(place / name, name)
    return place


@pytest.mark.parametrize(
    ("model", "strategy", "message"),
    [
        ("slots", "easy-first", SLOTS + "'easy-first'"),
        ("slots", "imputation", SLOTS + "'imputation'"),
        ("flowseq", "rescore", "the strategy must be one of greedy, sample, importance for this model"),
        ("slots", "mask-predict:iterations=0", "mask-predict.iterations must be at least 1, got 0"),
        ("slots", "update-all:iterations=0", "update-all.iterations must be at least 1, got 0"),
        ("disco", "easy-first:iterations=0", "easy-first.iterations must be at least 1, got 0"),
        ("imputer", "imputation:iterations=0", "imputation.iterations must be at least 1, got 0"),
        ("slots", "greedy:lengths=257", "greedy.lengths must be in 1 … 256, got 257"),
        ("disco", "mask-predict:lengths=1000", "mask-predict.lengths must be in 1 … 256, got 1000"),
        ("slots", "greedy:length_weight=-1", "greedy.length_weight must be at least 0 and finite, got -1.0"),
        ("flowseq", "importance:lengths=0", "importance.lengths must be in 1 … 256, got 0"),
    ],
)
def test_strategies(models: Path, model: str, strategy: str, message: str, capsys: Capture) -> None:
    arguments = ("--model", str(models / model), "--decode", strategy, "--threads", "1", "w1 w2")
    assert error(capsys, "translate", *arguments).startswith(message)


def test_all_lengths_of_the_head_may_be_tried(models: Path, capsys: Capture) -> None:
    arguments = ["--model", str(models / "slots"), "--decode", "greedy:lengths=256", "--threads", "1"]
    assert main(["translate", *arguments, "w1 w2"]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("model", "strategy", "passes"),
    [
        ("slots", "mask-predict:iterations=3", 3.0),
        ("disco", "easy-first:iterations=1", 1.0),
        ("slots", "greedy", None),
    ],
)
def test_evaluate_counts_passes(
    models: Path, tmp_path: Path, model: str, strategy: str, passes: float | None, capsys: Capture
) -> None:
    for name in ("source", "reference"):
        (tmp_path / name).write_text("w1 w2 w3 w4\nw2\n", encoding="utf-8")
    files = ["--source", str(tmp_path / "source"), "--reference", str(tmp_path / "reference")]
    report = ["--json", str(tmp_path / "report.json"), "--threads", "1"]
    assert main(["evaluate", str(models / model), "--decode", strategy, *files, *report]) == 0
    assert json.loads((tmp_path / "report.json").read_text())["systems"][0]["passes"] == passes
    assert ("\npasses " in capsys.readouterr().out) == (passes is not None)


def test_verifiers(models: Path, capsys: Capture) -> None:
    def refused(model: str, verifier: str) -> str:
        given = ("--model", str(models / model), "--verifier", str(models / verifier), "--threads", "1")
        return error(capsys, "translate", *given, "w1 w2")

    expected = "the model that drafts must be a pcfg, dag or flowseq network, got slots"
    assert refused("slots", "autoregressive") == expected
    assert refused("flowseq", "disco") == "the verifier must be an autoregressive network, got disco"


@pytest.mark.parametrize("name", ["cmlmc", "disco", "ctc", "flowseq", "autoregressive"])
def test_a_checkpoint_that_says_it_is_another_network(
    models: Path, tmp_path: Path, name: str, capsys: Capture
) -> None:
    place = save_model(tmp_path / "model", "slots")
    metadata = load_toml(place / "checkpoint.toml")
    metadata["network"] = {**load_toml(save_model(tmp_path / "other", name) / "checkpoint.toml")["network"]}
    (place / "checkpoint.toml").write_text(dump_toml(metadata), encoding="utf-8")
    message = error(capsys, "translate", "--model", str(place), "--threads", "1", "w1 w2")
    assert str(place) in message
    assert re.search(r"must have .* weights|none of the model.s \d+ weights", message)


def test_trainings(world: World, models: Path, tmp_path: Path, capsys: Capture) -> None:
    def refused(recipe: str, *changes: str) -> str:
        places = (f"data={world.prepared}", f"output={tmp_path / 'run'}")
        return error(capsys, "train", recipe, *places, *SMALL, *changes)

    assert (
        refused("cmlm", "network.name=dag") == "Masked trains networks that predict a length, got DAGNetwork"
    )
    found = refused("cmlm", "validation.decoding.strategy=easy-first")
    assert found == f"validation.decoding.strategy: {SLOTS}'easy-first'"
    found = refused("smart", "validation.decoding.strategy='update-all:iterations=0'")
    assert found == "validation.decoding.strategy: update-all.iterations must be at least 1, got 0"
    found = refused("imputer", f"warm_start={world.teacher}", "network.transformer.ffn=12")
    assert found.startswith("warm_start must have weights of the network's names and shapes, got none of ")
    found = refused("axe", f"warm_start={models / 'slots'}")
    assert found.startswith("warm_start must have the tokenizer of the data, ")
