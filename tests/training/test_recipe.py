"""From a recipe and the command line to the settings of a run."""

import tomllib
from pathlib import Path

import pytest

from pcfgnat.config import ConfigError, from_dict
from pcfgnat.text import Prepared
from pcfgnat.training import TrainConfig
from pcfgnat.training.recipe import plan_run, print_run, resolve_recipe
from pcfgnat.training.sizing import TextSize, choose_sizes

PLACES = ("data=somewhere", "output=out")


def message(recipe: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        plan_run(recipe, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_overrides_and_none(tmp_path: Path) -> None:
    changes = ("optimiser.rate=5e-4", "ema.decay=none", "steps=none", "epochs=3", "validation.tokenize=none")
    config = resolve_recipe("pcfg", (*PLACES, *changes)).config
    assert config.optimiser.rate == 5e-4
    assert (config.ema.decay, config.steps, config.epochs) == (None, None, 3)
    assert config.validation.tokenize == "none"
    assert config.warm_start is None
    assert resolve_recipe("pcfg", (*PLACES, "warm_start=x", "warm_start=none")).config.warm_start is None


def test_errors_name_the_setting_and_the_file_if_it_is_the_users(data: Path, tmp_path: Path) -> None:
    assert message("pcfg") == "missing: data (a path), output (a path)"
    assert message("pcfg", *PLACES, "validation.keep=0") == "validation.keep must be at least 1, got 0"
    assert message("pcfg", *PLACES, "rate=1").startswith("unknown key 'rate'; did you mean optimiser.rate?")
    assert (
        message("pcfg", *PLACES) == "data: somewhere must be a prepared directory, but it has no report.toml"
    )
    assert message("pcfg", f"data={data}", "output=out", "warm_start=nowhere").startswith(
        "warm_start: nowhere must be a checkpoint"
    )
    own = tmp_path / "own.toml"
    own.write_text("stepps = 3\n")
    assert message(str(own)).startswith(f"{own}: unknown key 'stepps'; did you mean steps?")
    assert message(str(tmp_path / "missing.toml")).startswith("cannot read ")


def test_starter_takes_its_sizes_from_the_data(data: Path) -> None:
    text = TextSize.of(Prepared.open(data))
    expected = {key: value for choice in choose_sizes(text) for key, value in choice.settings.items()}
    planned = plan_run("starter", (f"data={data}", "output=out", "network.transformer.width=64"))
    transformer = planned.config.network["transformer"]
    assert transformer["width"] == 64
    assert transformer["dropout"] == expected["network.transformer.dropout"]
    assert planned.config.epochs == expected["epochs"]
    assert planned.config.warm_start is None
    notes = "\n".join(planned.notes)
    assert f"chosen: network.upsampling={expected['network.upsampling']} (" in notes
    assert "network.transformer.width" not in notes
    assert plan_run("starter", (f"data={data}", "output=out", "sizes_from_data=false")).notes == ()
    assert message("starter") == "missing: data (a path), from which this recipe chooses its sizes"
    assert message("starter", f"data={data}", "sizes_from_data=3") == (
        "sizes_from_data must be true or false, got 3"
    )


def test_printed_settings_load_to_the_same_run(data: Path, tmp_path: Path) -> None:
    overrides = (f"data={data}", f"output={tmp_path / 'out'}", "warm_start=x")
    for recipe in ("starter", "vanilla"):
        config = resolve_recipe(recipe, overrides).config
        text = print_run(recipe, overrides)
        assert from_dict(TrainConfig, tomllib.loads(text)) == config
        path = tmp_path / "printed.toml"
        path.write_text(text, encoding="utf-8")
        assert resolve_recipe(str(path)).config == config


def test_settings_can_be_printed_without_data() -> None:
    text = print_run("starter", ("seed=5",))
    assert text.startswith("# Sizes are chosen from the training text; add data=DIR")
    assert "\n# data = (a path)" in text
    plain = tomllib.loads(text)
    assert not {"data", "output"} & plain.keys()
    assert plain["seed"] == 5
