"""The experiments in configs/ can be run: all of them small, the paper's also at full size."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pcfgnat.config import from_dict
from pcfgnat.networks import NETWORKS
from pcfgnat.storage.toml import load_toml
from pcfgnat.text import LearnSettings, PrepareSettings, prepare
from pcfgnat.training import TrainConfig, train
from tests.text.bilingual import sentences, write_pair

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*/*.toml"))
PAPER = [path for path in CONFIGS if path.parent.name.startswith("wmt")]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated text, prepared."""
    directory = tmp_path_factory.mktemp("generated")
    pairs = [pair for pair in sentences(400) if len(pair[0]) < 80]
    settings = PrepareSettings(
        output=directory / "data",
        train=(write_pair(directory, "train", pairs[:120]),),
        valid=write_pair(directory, "valid", pairs[120:124]),
        learn=LearnSettings(vocabulary_size=300),
    )
    prepare(settings)
    return settings.output


def few_steps(path: Path, data: Path, output: Path, model: dict[str, Any], tokens: int) -> TrainConfig:
    """The experiment on other data, for two steps of two small batches each."""
    plain = load_toml(path)
    plain["model"] = merged(plain["model"], model)
    config = from_dict(TrainConfig, plain)
    return replace(
        config,
        data=data,
        output=output,
        steps=2,
        time_budget=None,
        warm_start=None,
        threads=1,
        precision="float32",
        device="cpu",
        log_every=1,
        curves=False,
        tensorboard=False,
        batches=replace(config.batches, tokens=tokens, sentences=None, accumulate=2),
        validation=replace(config.validation, every=2, every_minutes=None, sentences=4),
    )


def merged(plain: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        **plain,
        **{
            key: merged(plain.get(key, {}), value) if isinstance(value, dict) else value
            for key, value in changes.items()
        },
    }


def test_there_is_one_for_every_model_and_every_corpus_of_the_paper() -> None:
    assert {load_toml(path)["model"]["name"] for path in CONFIGS} == set(NETWORKS)
    directions = {"wmt14": ("en_de", "de_en"), "wmt17": ("zh_en", "en_zh"), "wmt16": ("en_ro", "ro_en")}
    assert {name(path) for path in PAPER} == {
        f"{task}/pcfg_{pair}" for task, pairs in directions.items() for pair in pairs
    }


@pytest.mark.parametrize("path", CONFIGS, ids=name)
def test_runs(path: Path, data: Path, tmp_path: Path) -> None:
    small = {"transformer": {"width": 32, "ffn": 32, "layers_encoder": 1, "layers_decoder": 1}}
    result = train(few_steps(path, data, tmp_path / "run", small, tokens=256))
    assert (result.step, result.interrupted) == (2, False)
    assert result.final is not None


@pytest.mark.parametrize("path", PAPER, ids=name)
def test_has_the_size_of_the_paper(path: Path) -> None:
    config = from_dict(TrainConfig, load_toml(path)).resolved()
    model, transformer = config.model, config.model["transformer"]
    assert (model["upsampling"], model["prefix_depth"]) == (4, 1)
    assert [transformer[key] for key in ("layers_encoder", "layers_decoder")] == [6, 6]
    assert [transformer[key] for key in ("width", "ffn", "heads")] == [512, 2048, 8]
    assert (model["glancing"]["first"], model["glancing"]["last"]) == (0.5, 0.1)
    assert config.batches.tokens is not None
    assert config.batches.tokens * config.batches.accumulate == 65536
    assert config.steps == 300_000


@pytest.mark.slow
@pytest.mark.parametrize("path", PAPER, ids=name)
def test_runs_at_full_size(path: Path, data: Path, tmp_path: Path) -> None:
    result = train(few_steps(path, data, tmp_path / "run", {}, tokens=256))
    assert result.step == 2
