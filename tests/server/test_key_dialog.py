"""The page of a server that needs a key, in a real browser."""

import shutil
from collections.abc import Iterator

import pytest

from pcfgnat.server import create_app
from pcfgnat.server.access import Access
from tests.server.browser import Browser, browsing, programs
from tests.server.served import echo, running

pytestmark = pytest.mark.skipif(None in programs(), reason="chromium and chromedriver are not installed")

KEY = "0123456789abcdef"


@pytest.fixture
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    profile = tmp_path_factory.mktemp("profile")
    app = create_app({"echo": echo()[1]}, access=Access(key=KEY))
    with running(app) as address, browsing(profile) as browser:
        browser.open(address)
        browser.until(lambda: browser.all(".panel"))
        yield browser
    shutil.rmtree(profile, ignore_errors=True)


def enter(page: Browser, key: str) -> None:
    page.until(lambda: page.shown("#key-label"))
    field = page.find("#key input")
    field.send_keys(key)
    page.find("#key button[value=use]").click()


def test_the_page_asks_for_the_key_and_keeps_it(page: Browser) -> None:
    page.type("one two")
    enter(page, "not the right one")
    page.until(lambda: "did not accept" in page.shown("#key .problem"))
    enter(page, KEY)
    page.until_shown(".translation", "one two")
    page.chrome.refresh()
    page.until(lambda: page.all(".panel"))
    page.until_shown(".translation", "one two")
    assert not page.shown("#key-label")


def test_without_a_key_the_page_says_what_is_missing(page: Browser) -> None:
    page.type("one")
    page.until(lambda: page.shown("#key-label"))
    page.find("#key button[value=cancel]").click()
    page.until(lambda: "a key is needed" in page.shown(".result .problem"))
