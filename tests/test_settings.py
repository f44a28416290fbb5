"""Descriptions of settings, and TOML that carries them."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from tools.settings_reference import PAGE, page

from pcfgnat.config import ByName, ConfigError, from_dict, override, tables_of
from pcfgnat.recipes import recipe_names
from pcfgnat.settings import commented_toml, descriptions, settings_of
from pcfgnat.training import TrainConfig
from pcfgnat.training.recipe import resolve_recipe

RECIPES = recipe_names()
BAD_VALUES = ("-1", "0", "2", "1e400", "nan", "true", "x", "[1]", "[2.0, 2.0]", "99999999999999999999")


@dataclass(frozen=True)
class Optional:
    """How to search.

    beam: hypotheses to keep
    kind: which search it is
    """

    beam: int
    kind: Literal["fast", "slow"] = "fast"


@dataclass(frozen=True)
class Layers:
    """Size.

    number: of layers,
            of either side: encoder and decoder

    note: of no field, and so left out
    """

    number: int = 3


@dataclass(frozen=True)
class More(Layers):
    """Size and more.

    extra: another one
    """

    extra: float = 0.5


@dataclass(frozen=True)
class Run:
    """A run.

    data:   where it is
    net:    the network
    search: how to search
    steps:  end here
    """

    data: Path
    net: Annotated[dict[str, Any], ByName({"plain": Layers, "more": More})]
    search: Optional | None = None
    steps: int | None = None
    layers: Layers = field(default_factory=Layers)


def resolved(recipe: str) -> TrainConfig:
    return resolve_recipe(recipe, ["sizes_from_data=false"], {"data": "data", "output": "out"}).config


def classes(kind: type[Any]) -> Iterator[type[Any]]:
    """A settings class and all that stand in its tables."""
    yield kind
    for setting in settings_of(kind):
        for inner in tables_of(setting.kind):
            yield from classes(inner)


CLASSES = sorted(set(classes(TrainConfig)), key=str)


def test_descriptions_come_from_docstrings_own_and_inherited() -> None:
    assert descriptions(More) == {
        "number": "of layers, of either side: encoder and decoder",
        "extra": "another one",
    }
    assert [(setting.name, setting.default, setting.required) for setting in settings_of(Run)] == [
        ("data", None, True),
        ("net", None, True),
        ("search", None, False),
        ("steps", None, False),
        ("layers", {"number": 3}, False),
    ]


def test_toml_with_comments() -> None:
    run = from_dict(Run, {"data": "x", "net": {"name": "more", "extra": 2}})
    text = commented_toml(run)
    assert text == (
        'data = "x"              # where it is\n'
        "# steps = (an integer)  # end here\n"
        "\n"
        "[net]  # the network\n"
        'name = "more"  # one of plain, more\n'
        "number = 3   # of layers, of either side: encoder and decoder\n"
        "extra = 2.0  # another one\n"
        "\n"
        "# [search]  # how to search\n"
        "# beam = (an integer)  # required: hypotheses to keep\n"
        "# kind = \"fast\"        # which search it is (one of 'fast', 'slow')\n"
        "\n"
        "[layers]  # \n"
        "number = 3  # of layers, of either side: encoder and decoder\n"
    )
    assert from_dict(Run, tomllib.loads(text)) == run
    assert commented_toml(run, placeholders=["data"]).startswith("# data = (a path)       # required: where")
    searching = replace(run, search=Optional(4), steps=3)
    assert from_dict(Run, tomllib.loads(commented_toml(searching))) == searching


def test_comments_stand_above_what_is_wide_and_are_wrapped() -> None:
    wide = "x" * 60
    text = commented_toml(from_dict(Run, {"data": wide, "net": {"name": "plain"}}))
    assert text.startswith(f'# where it is\ndata = "{wide}"\n# steps')
    config = commented_toml(resolved("pcfg"))
    assert max(map(len, config.splitlines())) <= 112


@pytest.mark.parametrize("kind", CLASSES)
def test_every_setting_of_a_run_is_described(kind: type[Any]) -> None:
    texts = {setting.name: setting.text for setting in settings_of(kind)}
    assert [name for name, text in texts.items() if len(text) < 6] == []


@pytest.mark.parametrize("kind", CLASSES)
def test_what_may_be_unset_is_so_by_default(kind: type[Any]) -> None:
    """Otherwise `key=none` would have no TOML form."""
    optional = [
        setting for setting in settings_of(kind) if type(None) in getattr(setting.kind, "__args__", ())
    ]
    assert [setting.name for setting in optional if setting.default is not None] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_printed_recipe_loads_to_an_equal_config(recipe: str) -> None:
    config = resolved(recipe)
    text = commented_toml(config)
    assert from_dict(TrainConfig, tomllib.loads(text)) == config
    assert "# warm_start = (a path)" in text


def test_every_error_starts_with_the_name_of_a_setting() -> None:
    plain = tomllib.loads(commented_toml(replace(resolved("pcfg"), warm_start=Path("x"))))
    plain["validation"]["decoding"] = {"strategy": "viterbi", "length_penalty": 1.0}
    keys = list(leaves(plain))
    assert len(keys) > 60
    errors = {(key, value): error_of(plain, f"{key}={value}") for key in keys for value in BAD_VALUES}
    blamed = {
        (key, value): error.split(" ")[0].split("[")[0] for (key, value), error in errors.items() if error
    }
    assert len({key for key, _ in blamed}) > 0.8 * len(keys)
    assert [case for case, name in blamed.items() if name not in keys] == []
    other_tables = [
        case for case, name in blamed.items() if name.rpartition(".")[0] != case[0].rpartition(".")[0]
    ]
    assert other_tables == []


def error_of(plain: dict[str, Any], assignment: str) -> str:
    """What is said about a setting; nothing if it can be used."""
    try:
        from_dict(TrainConfig, override(plain, [assignment]))
    except ConfigError as error:
        return str(error)
    return ""


def leaves(data: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_the_page_of_reference_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tools.settings_reference"
