"""The page in a real browser: what a user types, sees, clicks, and what nobody shall be able to do."""

import shutil
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from pcfgnat.server import ServedModel, create_app
from pcfgnat.translator import TranslateOptions
from tests.server.browser import Browser, browsing, programs
from tests.server.served import IMAGE, SCRIPT, Echo, echo, running

pytestmark = pytest.mark.skipif(None in programs(), reason="chromium and chromedriver are not installed")

SENTENCE = "The weather is nice today."
TRANSLATION = ".translation"
CLIPBOARD = ["clipboardReadWrite", "clipboardSanitizedWrite"]
FOCUSED = "const e = document.activeElement; return e.name || e.id || e.dataset.copy || e.dataset.node"


@pytest.fixture(scope="module")
def slow() -> tuple[Echo, ServedModel]:
    return echo()


@pytest.fixture(scope="module")
def address(embedded: ServedModel, slow: tuple[Echo, ServedModel]) -> Iterator[str]:
    with running(create_app({"en-de": embedded, "echo": slow[1]})) as address:
        yield address


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    profile = tmp_path_factory.mktemp("profile")
    with browsing(profile) as browser:
        yield browser
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Browser]:
    """A fresh page; what the browser complains about fails the test."""
    chromium.size(1200, 900)
    chromium.open(address)
    chromium.until(lambda: chromium.all(".panel"))
    yield chromium
    assert chromium.complaints() == []


def test_typing_gives_translation_and_tree(page: Browser, embedded: ServedModel) -> None:
    page.type(SENTENCE)
    expected = embedded.translator(SENTENCE)
    page.until_shown(TRANSLATION, expected.text)
    assert expected.tree is not None
    words = [node.text for node in page.all(".trees .node text")]
    assert words == [word.removeprefix("▁") for word in expected.tree.words or ()]
    assert "in the model" in page.shown(".latency")
    assert page.find(TRANSLATION).get_attribute("lang") == "de"
    page.type("")
    page.find("#text").send_keys(" ")
    page.until_shown(TRANSLATION, "")
    assert not page.all(".trees svg")


def test_settings_change_the_translation(page: Browser, embedded: ServedModel) -> None:
    text = "My brother has bought a new car, but it does not work."
    page.type(text)
    page.choose("decode", "greedy")
    page.run(
        "const b = document.querySelector('[name=beta]'); b.value = 0; b.dispatchEvent(new Event('input'))"
    )
    greedy = embedded.translator.with_options(TranslateOptions(decode="greedy", beta=0.0))(text)
    page.until_shown(TRANSLATION, greedy.text)
    assert page.shown("[name=beta-value]") == "0.0"
    page.choose("model", "echo")
    page.type("one two")
    page.until_shown(TRANSLATION, "one two")
    assert page.find("[name=decode]").get_attribute("value") == "viterbi"


def test_two_settings_side_by_side(page: Browser) -> None:
    page.choose("model", "echo")
    page.type("one two three")
    page.find("#compare").click()
    page.until(lambda: [line.text for line in page.all(TRANSLATION)] == ["one two three"] * 2)
    assert [entry.get_attribute("value") for entry in page.all("[name=decode]")] == ["viterbi", "greedy"]
    assert not page.all("mark")
    page.choose("model", "en-de", panel=1)
    page.until(lambda: page.all("mark"))
    assert {panel.rect["y"] for panel in page.all(".panel")} == {page.find(".panel").rect["y"]}
    page.find("#compare").click()
    page.until(lambda: len(page.all(".panel")) == 1 and not page.all("mark"))


def test_a_node_shows_its_alternatives_to_mouse_and_keyboard(page: Browser) -> None:
    page.type(SENTENCE)
    page.until(lambda: page.all(".trees [data-node]"))
    page.all(".trees [data-node]")[2].click()
    page.until(lambda: page.all(".alternatives li"))
    word = page.shown(".alternatives h3")
    assert page.shown(".alternatives li.chosen span:nth-child(2)").startswith(word)
    keys = ActionChains(page.chrome)
    keys.send_keys(Keys.ARROW_RIGHT, Keys.ENTER).perform()
    page.until(lambda: page.shown(".alternatives h3") not in ("", word) and page.all(".alternatives li"))
    assert len(page.all(".trees [aria-pressed=true]")) == 1
    keys.send_keys(Keys.ESCAPE).perform()
    page.until(lambda: not page.shown(".alternatives"))


def test_everything_can_be_reached_with_the_tab_key(page: Browser) -> None:
    page.type(SENTENCE)
    page.until(lambda: page.all(".trees [data-node]"))
    reached = []
    for _ in range(12):
        ActionChains(page.chrome).send_keys(Keys.TAB).perform()
        reached.append(
            page.run(
                "const e = document.activeElement; return e.name || e.id || e.dataset.copy || e.dataset.node"
            )
        )
    wanted = ["compare", "model", "decode", "beta", "1", "text", "svg", "latex"]
    assert [name for name in reached if name in wanted] == wanted


@pytest.mark.parametrize("text", [IMAGE, SCRIPT, f'{IMAGE} one &amp; " ]]>'])
def test_nothing_that_is_typed_or_translated_is_run(page: Browser, text: str) -> None:
    page.choose("model", "echo")
    page.type(text)
    page.until(lambda: page.shown(TRANSLATION))
    page.all(".trees [data-node]")[1].click()
    page.until(lambda: "cannot" in page.shown(".alternatives") or "needs" in page.shown(".alternatives"))
    assert page.chrome.title == "pcfgnat"
    assert not page.all("main script, main img")
    assert text.split()[0] in page.run("return document.querySelector('.trees').textContent")
    assert any("422" in message for message in page.complaints())  # this model cannot be explained


def test_too_much_text_is_refused_in_plain_words(page: Browser) -> None:
    page.set("#text", "a" * 2500)
    page.until(lambda: page.shown(".problem").startswith("The text has 2500 characters; at most 2000"))
    page.type("How are you?")
    page.until(lambda: page.shown(TRANSLATION) and not page.shown(".problem"))


def test_a_slow_server_shows_and_the_last_text_wins(page: Browser, slow: tuple[Echo, ServedModel]) -> None:
    page.choose("model", "echo")
    slow[0].gate.clear()
    try:
        page.type("one")
        page.until_shown(".latency", "Translating…")
        assert page.find(".result").get_attribute("aria-busy") == "true"
        page.type("two")
    finally:
        slow[0].gate.set()
    page.until_shown(TRANSLATION, "two")
    assert page.find(".result").get_attribute("aria-busy") == "false"


def test_an_older_answer_never_replaces_a_newer_one(page: Browser) -> None:
    page.choose("model", "echo")
    page.run(
        """const real = window.fetch;
        window.late = 0;
        window.fetch = async (path, options) => {
          const answer = await real(path, { ...options, signal: undefined });
          if (!options?.body?.includes('"one"')) return answer;
          await new Promise((resolve) => { window.release = resolve; });
          window.late += 1;
          return answer;
        };"""
    )
    page.type("one")
    page.until(lambda: page.run("return Boolean(window.release)"))
    page.type("two")
    page.until_shown(TRANSLATION, "two")
    page.run("window.release()")
    page.until(lambda: page.run("return window.late"))
    page.run("return new Promise((resolve) => setTimeout(resolve, 50))")
    assert page.shown(TRANSLATION) == "two"


def test_a_server_that_is_away_is_told_and_can_be_tried_again(page: Browser) -> None:
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.choose("model", "echo")
    page.cdp("Network.enable")
    page.cdp("Network.emulateNetworkConditions", offline=True, **offline)
    page.type("one")
    page.until(lambda: page.shown(".problem").startswith("The server does not answer."))
    page.cdp("Network.emulateNetworkConditions", offline=False, **offline)
    page.find(".problem button").click()
    page.until_shown(TRANSLATION, "one")
    assert all("ERR_INTERNET_DISCONNECTED" in message for message in page.complaints())


def test_a_busy_server_is_asked_again(page: Browser) -> None:
    page.choose("model", "echo")
    page.run(
        """const real = window.fetch;
        let times = 0;
        window.fetch = (path, options) => (times += 1) > 1 ? real(path, options) : Promise.resolve(
          new Response('{"detail": "full"}', { status: 429, headers: { "Retry-After": "0.5" } }));"""
    )
    page.type("one")
    page.until_shown(".latency", "The server is busy. Trying again…")
    page.until_shown(TRANSLATION, "one")


def test_trees_can_be_copied(page: Browser, address: str) -> None:
    page.cdp("Browser.grantPermissions", origin=address, permissions=CLIPBOARD)
    page.type(SENTENCE)
    page.until(lambda: page.all(".trees [data-node]"))
    copied = {}
    for kind in ("text", "svg", "latex"):
        page.find(f"[data-copy={kind}]").click()
        page.until(lambda: page.shown("#told").startswith("Copied"))
        page.run("document.getElementById('told').replaceChildren()")
        copied[kind] = page.run("return navigator.clipboard.readText()")
    assert copied["text"] == page.shown(TRANSLATION)
    assert len(list(ElementTree.fromstring(copied["svg"]).iter("{http://www.w3.org/2000/svg}style"))) == 1
    assert r"\begin{forest}" in copied["latex"]


def test_it_fits_a_phone_and_the_dark(page: Browser) -> None:
    page.size(360, 740)
    page.type("Where is the train station in this small town?")
    page.until(lambda: page.all(".trees [data-node]"))
    assert page.run("return document.documentElement.scrollWidth") <= 360
    assert page.run("const t = document.querySelector('.trees'); return t.scrollWidth <= t.clientWidth")
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(colour)
    page.run("document.getElementById('theme').click(); document.getElementById('theme').click()")
    assert page.run(colour) != light
    page.chrome.refresh()
    assert page.run(colour) != light  # it is remembered
    page.run("document.getElementById('theme').click()")


def test_the_documentation_works_without_other_hosts(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}/docs")
    chromium.until(lambda: chromium.all("h2"))
    titles = [title.text for title in chromium.all("h2")]
    assert titles == ["POST /translate", "POST /explain", "GET /models", "GET /healthz", "GET /metrics"]
    assert "at most 2000 characters" in chromium.shown("main")
    loaded = chromium.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded
    assert all(name.startswith(address) for name in loaded)
    assert chromium.complaints() == []
