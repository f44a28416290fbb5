"""Make the pictures of the documentation anew, with the bundled model: `python -m tools.screenshots [DIR]`.

Needs chromium and chromedriver. Writes tree.svg, lattice.svg, nbest.png, page-light.png and
page-compare-dark.png into docs/pictures, or into DIR.
"""

import sys
import tempfile
from pathlib import Path

from tests.server.browser import Browser, browsing
from tests.server.served import running

from pcfgnat.cli import main as pcfgnat
from pcfgnat.server import ServedModel, create_app

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SENTENCE = "The weather is nice today."
DRAWN = {"tree.svg": [], "lattice.svg": ["--lattice"], "nbest.png": ["--results", "3"]}


def main() -> None:
    """Draw with the command line, then photograph the page."""
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    output.mkdir(parents=True, exist_ok=True)
    for name, options in DRAWN.items():
        if code := pcfgnat(["draw", SENTENCE, *options, "--output", str(output / name)]):
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
        page.until(lambda: page.shown(".alternatives"))
    height = int(page.run("return document.documentElement.scrollHeight"))
    page.size(1200, max(400, min(height, 1600)))
    page.chrome.save_screenshot(str(file))


if __name__ == "__main__":
    main()
