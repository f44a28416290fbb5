"""What is installed beside what is asked for, without a network: `python -m benchmarks.dependencies`."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def main() -> int:
    """Print a line for each requirement; 1 if one that is installed does not fit."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    groups = {"needed": project["dependencies"], **project["optional-dependencies"]}
    wrong = 0
    for group, requirements in groups.items():
        for text in requirements:
            requirement = Requirement(text)
            try:
                found = version(requirement.name)
            except PackageNotFoundError:
                print(f"{group:10} {text:28} not installed")
                continue
            fits = requirement.specifier.contains(found, prereleases=True)
            wrong += not fits
            print(f"{group:10} {text:28} {found}{'' if fits else '  does not fit'}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
