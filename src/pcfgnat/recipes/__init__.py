"""Recipes: training settings that the package carries, one TOML file per system. Needs no torch.

The first line of a recipe is a comment that says what it is.
"""

from pathlib import Path

from pcfgnat.config import ConfigError, closest_first

DIRECTORY = Path(__file__).parent
SUFFIX = ".toml"


def recipe_names() -> list[str]:
    """Return the names of all recipes, those at the top first."""
    names = [path.relative_to(DIRECTORY).with_suffix("").as_posix() for path in DIRECTORY.rglob(f"*{SUFFIX}")]
    return sorted(names, key=lambda name: (name.count("/"), name))


def recipe_path(recipe: str) -> Path:
    """Return the file of a recipe: one of the package's by its name, or any TOML file by its path."""
    names = recipe_names()
    if recipe in names:
        return DIRECTORY / f"{recipe}{SUFFIX}"
    if recipe.endswith(SUFFIX) or Path(recipe).exists():
        return Path(recipe)
    listed = ", ".join(closest_first(recipe, names))
    raise ConfigError(f"a recipe must be the path of a TOML file or one of {listed}, got {recipe!r}")


def is_carried(recipe: str) -> bool:
    """Return whether a recipe is one of the package's."""
    return recipe in recipe_names()


def summary(name: str) -> str:
    """Return the first line of a recipe."""
    with recipe_path(name).open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
