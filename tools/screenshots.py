"""Regenerate the pictures of the documentation with the bundled model: `python -m tools.screenshots [DIR]`.

Needs chromium and chromedriver. Writes what the commands of docs/pictures.md draw, page-light.png and
page-compare-dark.png into docs/pictures, or into DIR.
"""

import re
import shlex
import sys
import tempfile
from pathlib import Path

from tests.server.browser import Browser, browsing
from tests.server.served import running

from pcfgnat.cli import main as pcfgnat
from pcfgnat.server import ServedModel, create_app

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SENTENCE = "I need something to cut this with."
PAGE = PICTURES.parent / "pictures.md"


def main() -> None:
    """Draw with the command line, then photograph the page."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    output.mkdir(parents=True, exist_ok=True)
    for arguments in drawing_commands(output):
        if code := pcfgnat(arguments):
            raise SystemExit(code)
    app = create_app({"en-de": ServedModel.load("en-de", None)})
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        running(app) as address,
        browsing(Path(profile)) as page,
    ):
        photograph(page, address, output / "page-light.png", dark=False)
        photograph(page, address, output / "page-compare-dark.png", dark=True)
    print(f"{output} has {', '.join(sorted(path.name for path in output.iterdir()))}")


def drawing_commands(output: Path) -> list[list[str]]:
    """Return the arguments of the commands on the page about pictures, which then write into `output`."""
    lines = re.findall(
        r"^pcfgnat (draw .* --output) docs/pictures/(\S+)$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return [[*shlex.split(command), str(output / name)] for command, name in lines]


def photograph(page: Browser, address: str, file: Path, dark: bool) -> None:
    """Save the page: light with the alternatives of a word, or dark with two settings compared."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    page.cdp("Emulation.setEmulatedMedia", features=scheme)
    page.size(1200, 900)
    page.open(address)
    page.until(lambda: page.all(".panel"))
    page.type(SENTENCE)
    page.until(lambda: page.all(".trees svg"))
    if dark:
        page.find("#compare").click()
        page.until(lambda: len(page.all(".trees svg")) == 2)
    else:
        page.all("[data-node]")[2].click()
        page.until(lambda: page.all(".alternatives .bar"))  # not only the notice that they are looked for
    height = int(page.run("return document.documentElement.scrollHeight"))
    page.size(1200, max(400, min(height, 1600)))
    page.chrome.save_screenshot(str(file))


if __name__ == "__main__":
    main()
