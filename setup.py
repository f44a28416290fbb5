"""The long description for package indexes: the README, its links made absolute."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")


def absolute_readme() -> str:
    """Return the README with links and pictures that work away from the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project["urls"]["Source"]

    def absolute(match: "re.Match[str]") -> str:
        picture, text, target = match.groups()
        place = f"{source}/raw/main/{target}" if picture else f"{source}/blob/main/{target}"
        return f"{picture}[{text}]({place})"

    return RELATIVE.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    setup(long_description=absolute_readme(), long_description_content_type="text/markdown")
