"""The page shows how a translation was verified, round by round."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pcfgnat.server.process import ServeSettings
from pcfgnat.translator import Translator
from pcfgnat.translator.translation import Verification
from tests.runtimes.models import save_model
from tests.server.browser import Browser, browsing, programs
from tests.server.served import running

TEXT = "w1 w2 w3 w4 w5 w6"


def rows(found: Verification, pieces: tuple[str, ...]) -> list[list[str]]:
    """What is verified, accepted, dropped and corrected in each round, as one line each."""
    written, expected, before = [*pieces, "</s>"], [], 0
    for draft, accepted in zip(found.drafts, found.accepted, strict=True):
        corrected = written[before + accepted : before + accepted + 1] if accepted < len(draft) else []
        parts = [written[:before], draft[:accepted], draft[accepted:], corrected]
        expected.append([" ".join(part).replace("</s>", "∎") for part in parts])
        before += accepted + 1
    return expected


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with browsing(tmp_path / "profile") as found:
        yield found
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)


@pytest.mark.skipif(None in programs(), reason="chromium and chromedriver are not installed")
def test_the_page_shows_what_was_accepted_and_what_was_corrected(browser: Browser, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model", "hybrid")
    translation = Translator.load(model)(TEXT)
    verification = translation.verification
    assert verification is not None
    expected = rows(verification, translation.pieces)
    assert len(expected) > 1
    with running(ServeSettings({"model": model})()) as address:
        browser.open(address)
        browser.until(lambda: browser.all(".panel"))
        browser.type(TEXT)
        browser.until(lambda: browser.all(".rounds li"))
        found = []
        for row in browser.all(".rounds li"):
            kinds = (".verified", ".accepted", ".dropped", ".corrected")
            parts = [row.find_elements("css selector", kind) for kind in kinds]
            found.append([part[0].text if part else "" for part in parts])
        assert found == expected
        drafted = sum(map(len, verification.drafts))
        summary = f"{len(expected)} rounds: {sum(verification.accepted)} of {drafted} drafted pieces accepted"
        assert summary in browser.shown(".trees")
        assert browser.complaints() == []
