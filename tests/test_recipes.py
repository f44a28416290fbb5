"""The package's recipes can be run: all of them small, the paper's also at full size."""

from dataclasses import replace
from pathlib import Path

import pytest

from pcfgnat.config import ConfigError
from pcfgnat.networks import NETWORKS
from pcfgnat.recipes import recipe_names, recipe_path, summary
from pcfgnat.storage.toml import load_toml
from pcfgnat.text import LearnSettings, PrepareSettings, prepare
from pcfgnat.training import TrainConfig, train
from pcfgnat.training.recipe import resolve_recipe
from tests.text.bilingual import sentences, write_pair

RECIPES = recipe_names()
ORIGINALS = [name for name in RECIPES if name.startswith("paper/")]
OWN = [name for name in ORIGINALS if name.startswith("paper/pcfg_")]  # the system of the paper itself
PLACES = {"data": "data", "output": "output"}


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


def few_steps(recipe: str, data: Path, output: Path, changes: list[str]) -> TrainConfig:
    """The recipe for two steps of two small batches each."""
    config = resolve_recipe(recipe, [f"data={data}", f"output={output}", *changes]).config
    return replace(
        config,
        steps=2,
        epochs=None,
        time_budget=None,
        threads=1,
        precision="float32",
        device="cpu",
        log_every=1,
        curves=False,
        tensorboard=False,
        batches=replace(config.batches, tokens=256, sentences=None, accumulate=2),
        validation=replace(config.validation, every=2, every_minutes=None, sentences=4),
    )


def test_there_is_one_for_every_model_and_every_corpus_of_the_paper() -> None:
    models = {resolve_recipe(name, ["sizes_from_data=false"], PLACES).config.network_name for name in RECIPES}
    assert models == set(NETWORKS)
    directions = ("en_de", "de_en", "zh_en", "en_zh", "en_ro", "ro_en")
    assert set(OWN) == {f"paper/pcfg_{pair}" for pair in directions}


@pytest.mark.parametrize(
    "recipe", [pytest.param(name, marks=[pytest.mark.slow] * (name in ORIGINALS)) for name in RECIPES]
)
def test_runs(recipe: str, data: Path, tmp_path: Path) -> None:
    sizes = {"width": 32, "ffn": 32, "heads": 4, "layers_encoder": 1, "layers_decoder": 1}
    changes = [f"network.transformer.{name}={value}" for name, value in sizes.items()]
    if recipe.endswith("flowseq"):
        changes += ["network.flow.steps=[1, 1]"]
    result = train(few_steps(recipe, data, tmp_path / "run", changes))
    assert (result.step, result.interrupted) == (2, False)
    assert result.final is not None


@pytest.mark.parametrize("recipe", OWN)
def test_has_the_size_of_the_paper(recipe: str) -> None:
    config = resolve_recipe(recipe, (), PLACES).config
    network, transformer = config.network, config.network["transformer"]
    assert (network["upsampling"], network["prefix_depth"]) == (4, 1)
    assert [transformer[key] for key in ("layers_encoder", "layers_decoder")] == [6, 6]
    assert [transformer[key] for key in ("width", "ffn", "heads")] == [512, 2048, 8]
    glancing = config.objective["glancing"]
    assert (glancing["first"], glancing["last"]) == (0.5, 0.1)
    assert config.batches.tokens is not None
    assert config.batches.tokens * config.batches.accumulate == 65536
    assert config.steps == 300_000


@pytest.mark.parametrize("recipe", RECIPES)
def test_leaves_data_and_output_to_the_command_line_and_says_what_it_is(recipe: str) -> None:
    plain = load_toml(recipe_path(recipe))
    assert not {"data", "output", "warm_start", "threads"} & plain.keys()
    assert 20 < len(summary(recipe)) < 90


def test_names_and_paths(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    assert recipe_path(str(own)) == own
    assert recipe_path("paper/pcfg_en_de").is_file()
    with pytest.raises(ConfigError) as caught:
        recipe_path("dga")
    assert str(caught.value).startswith("a recipe must be the path of a TOML file or one of dag, ")
    assert str(caught.value).endswith("got 'dga'")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ORIGINALS)
def test_runs_at_full_size(recipe: str, data: Path, tmp_path: Path) -> None:
    result = train(few_steps(recipe, data, tmp_path / "run", []))
    assert result.step == 2
