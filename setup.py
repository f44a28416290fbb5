"""The long description for package indexes: the README, its links made absolute where that is possible."""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)")
PICTURE_ALONE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)\s]+\)\n\n", re.MULTILINE)


def index_readme(readme: str, source: str | None) -> str:
    """Return the README as it works away from the repository.

    Without a public address of the source, pictures are left out and links become their text.
    """

    def absolute(match: "re.Match[str]") -> str:
        picture, text, target = match.groups()
        if source is None:
            return "" if picture else text
        place = f"{source}/raw/main/{target}" if picture else f"{source}/blob/main/{target}"
        return f"{picture}[{text}]({place})"

    return RELATIVE.sub(absolute, readme if source else PICTURE_ALONE.sub("", readme))


def long_description() -> str:
    """Return the README for the address in `project.urls.Source`, if there is one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project.get("urls", {}).get("Source")
    return index_readme((ROOT / "README.md").read_text(encoding="utf-8"), source)


if __name__ == "__main__":
    setup(long_description=long_description(), long_description_content_type="text/markdown")
