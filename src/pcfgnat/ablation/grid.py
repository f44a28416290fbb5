"""Which settings are varied, and the cells that come of it."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from pcfgnat.config import ConfigError, from_dict, override, to_dict
from pcfgnat.recipes import recipe_path
from pcfgnat.storage.toml import dump_toml, load_toml
from pcfgnat.training import TrainConfig
from pcfgnat.training.recipe import resolve

SHORT = {"lambda": "network.upsampling", "l": "network.prefix_depth"}
GLANCING, LAYERS = "glancing", "layers"
DEPTHS = re.compile(r"(\d+)-(\d+)")  # of encoder and decoder
NO_GLANCING = {"objective.glancing.first": 0.0, "objective.glancing.last": 0.0}
DECODING = ("decode", "length_penalty")  # what is varied on one checkpoint, without another training

Axes = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class GridFile:
    """What a file with a grid says; `config` is a recipe, axes are lists of values by setting."""

    config: str
    grid: dict[str, list[Any]]
    output: Path | None = None


@dataclass(frozen=True)
class Cell:
    """One training: the values of the axes that matter to it, its name, and all its settings."""

    name: str
    values: dict[str, Any]
    config: TrainConfig

    @property
    def fingerprint(self) -> str:
        """Hash of all settings but the place of the run."""
        plain = to_dict(replace(self.config, output=Path("-")))
        return hashlib.sha256(dump_toml(plain).encode()).hexdigest()


@dataclass(frozen=True)
class Grid:
    """A recipe, by name or path, and the axes along which it is varied; runs go below `output`."""

    config: str
    output: Path
    axes: Axes = field(default_factory=dict)

    @property
    def varied(self) -> list[str]:
        """Names of the axes with more than one value."""
        return [name for name, values in self.axes.items() if len(values) > 1]

    def cells(self) -> list[Cell]:
        """Return all trainings; a setting that cannot be used is an error now, not hours later."""
        plain = load_toml(recipe_path(self.config))
        axes = {name: values for name, values in self.axes.items() if name not in DECODING}
        cells = []
        for combination in product(*axes.values()):
            values = dict(zip(axes, combination, strict=True))
            name = "_".join(f"{key}-{_file_name(value)}" for key, value in values.items()) or "run"
            changes = [change for pair in values.items() for change in _changes(*pair)]
            try:
                config = resolve({**plain, "output": str(self.output)}, changes).config
            except ConfigError as error:
                raise ConfigError(f"cell {name}: {error}") from error
            cells.append(Cell(name, values, replace(config.resolved(), output=self.output / name)))
        names = [cell.name for cell in cells]
        if len(set(names)) < len(names):
            raise ConfigError(f"the cells must have different names, got {', '.join(names)}")
        return cells

    def decodings(self) -> list[dict[str, Any]]:
        """Return all ways to decode the model of a cell."""
        axes = {name: values for name, values in self.axes.items() if name in DECODING}
        return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def read_axes(assignments: Sequence[str]) -> Axes:
    """Read `lambda=1,2` and the like; one value alone is a setting of all cells."""
    axes: Axes = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not (key and equals and text):
            raise ConfigError(f"an axis must look like key=value,value, got {assignment!r}")
        axes[key] = tuple(override({}, [f"value={part}"])["value"] for part in text.split(","))
    return axes


def read_grid(config: str, assignments: Sequence[str], output: Path | None) -> Grid:
    """Read a file with a grid, or a recipe; axes given here come before those of the file."""
    plain, axes = load_toml(recipe_path(config)), read_axes(assignments)
    if "grid" in plain:
        file = from_dict(GridFile, plain)
        empty = [name for name, values in file.grid.items() if not values]
        if empty:
            raise ConfigError(f"{config}: grid.{empty[0]} must have at least one value, got none")
        axes = {**{name: tuple(values) for name, values in file.grid.items()}, **axes}
        config, output = file.config, output or file.output
    if output is None:
        raise ConfigError("an ablation must have an --output")
    return Grid(config, output, axes)


def _changes(name: str, value: Any) -> list[str]:
    """Return the settings of the recipe that a value stands for."""
    if name == LAYERS:
        depths = DEPTHS.fullmatch(str(value))
        if depths is None:
            raise ConfigError(f"layers must look like 5-1, for encoder and decoder, got {value!r}")
        parts = zip(("encoder", "decoder"), depths.groups(), strict=True)
        return [f"network.transformer.layers_{part}={count}" for part, count in parts]
    if name != GLANCING:
        return [f"{SHORT.get(name, name)}={'none' if value is None else json.dumps(value)}"]
    if value not in ("on", "off", True, False):
        raise ConfigError(f"glancing must be on (that of the recipe) or off, got {value!r}")
    return [] if value in ("on", True) else [f"{key}={json.dumps(zero)}" for key, zero in NO_GLANCING.items()]


def _file_name(value: Any) -> str:
    """Return a value as a part of a file name; of a path, its last part."""
    return re.sub(r"[^\w.+-]+", "-", str(value).rstrip("/").rsplit("/", 1)[-1])
