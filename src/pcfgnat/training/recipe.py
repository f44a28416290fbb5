"""From a recipe and the command line to the settings of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcfgnat.checkpoints.checkpoint import Checkpoint
from pcfgnat.config import ConfigError, from_dict, override
from pcfgnat.recipes import is_carried, recipe_path
from pcfgnat.settings import commented_toml
from pcfgnat.storage.toml import load_toml
from pcfgnat.text import Prepared
from pcfgnat.training.config import TrainConfig
from pcfgnat.training.sizing import Choice, TextSize, choose_sizes, vocabulary_advice

SIZES_FROM_DATA = "sizes_from_data"  # a key of recipes only: the settings of a run are what it comes to
PLACEHOLDER = "DIR"


@dataclass(frozen=True)
class Planned:
    """Settings of a run, and what to tell the user about them."""

    config: TrainConfig
    notes: tuple[str, ...] = ()


def plan_run(recipe: str, overrides: Sequence[str]) -> Planned:
    """Resolve a recipe, and check that its data and warm start can be read."""
    planned = resolve_recipe(recipe, overrides)
    _opened_data(planned.config.data)
    if planned.config.warm_start is not None:
        _check_warm_start(planned.config.warm_start)
    return planned


def print_run(recipe: str, overrides: Sequence[str]) -> str:
    """Return all settings as TOML with comments; data and output may be missing."""
    present = override(load_toml(recipe_path(recipe)), overrides)
    missing = {name: PLACEHOLDER for name in ("data", "output") if name not in present}
    header = ""
    if "data" in missing and _flag(present):
        header = "# Sizes are chosen from the training text; add data=DIR to see them.\n\n"
        overrides = [*overrides, f"{SIZES_FROM_DATA}=false"]
    config = resolve_recipe(recipe, overrides, missing).config
    return f"{header}{commented_toml(config, placeholders=missing)}"


def resolve_recipe(
    recipe: str, overrides: Sequence[str] = (), defaults: Mapping[str, str] | None = None
) -> Planned:
    """Read a recipe, by name or path, and resolve it; `defaults` stand in for what it leaves open."""
    path = recipe_path(recipe)
    plain = {**(defaults or {}), **load_toml(path)}
    try:
        return resolve(plain, overrides)
    except ConfigError as error:
        if is_carried(recipe):  # then the mistake is the command line's
            raise
        raise ConfigError(f"{path}: {error}") from error


def resolve(plain: dict[str, Any], overrides: Sequence[str]) -> Planned:
    """Choose sizes if these settings leave them to the data, apply `key=value` overrides, and check all."""
    notes: list[str] = []
    given = override(plain, overrides)
    if _flag(given):
        if "data" not in given:
            raise ConfigError("missing: data (a path), from which this recipe chooses its sizes")
        text = TextSize.of(_opened_data(Path(str(given["data"]))))
        choices = choose_sizes(text)
        notes = _notes(choices, text, overrides)
        chosen = [f"{key}={value}" for choice in choices for key, value in choice.settings.items()]
        given = override(plain, [*chosen, *overrides])
    given.pop(SIZES_FROM_DATA, None)
    return Planned(from_dict(TrainConfig, given), tuple(notes))


def _flag(given: dict[str, Any]) -> bool:
    value = given.get(SIZES_FROM_DATA, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{SIZES_FROM_DATA} must be true or false, got {value!r}")
    return value


def _notes(choices: Sequence[Choice], text: TextSize, overrides: Sequence[str]) -> list[str]:
    """Return the choices that were not overridden, and advice."""
    taken = {assignment.partition("=")[0].strip() for assignment in overrides}
    left = [
        Choice({key: value for key, value in choice.settings.items() if key not in taken}, choice.reason)
        for choice in choices
    ]
    advice = vocabulary_advice(text)
    return [*(f"chosen: {choice}" for choice in left if choice.settings), *([advice] if advice else [])]


def _opened_data(path: Path) -> Prepared:
    try:
        return Prepared.open(path)
    except ValueError as error:
        raise ConfigError(f"data: {error}") from error


def _check_warm_start(path: Path) -> None:
    try:
        Checkpoint.open(path)
    except ValueError as error:
        raise ConfigError(f"warm_start: {error}") from error
