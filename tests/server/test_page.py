"""The page in a real browser: what a user types, sees, clicks, and what nobody shall be able to do."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from pcfgnat.draw import draw_terminal
from pcfgnat.server import ServedModel, create_app
from pcfgnat.translator import TranslateOptions
from tests.server.browser import Browser, browsing, programs
from tests.server.served import IMAGE, SCRIPT, Echo, echo, running

pytestmark = pytest.mark.skipif(None in programs(), reason="chromium and chromedriver are not installed")

SENTENCE = "The weather is nice today."
UNSURE = "I am not sure whether he comes."
TRANSLATION = ".translation"
SETTINGS = """return [...document.querySelectorAll(".panel form")].map(({ elements }) =>
  ["model", "strategy", "length_penalty", "results"].map((name) => elements[name].value))"""
CLIPBOARD = ["clipboardReadWrite", "clipboardSanitizedWrite"]
FOCUSED = """const { name, id, dataset, localName } = document.activeElement;
return name || id || dataset.copy || dataset.save || dataset.node || localName"""


@pytest.fixture(scope="module")
def slow() -> tuple[Echo, ServedModel]:
    return echo()


@pytest.fixture(scope="module")
def address(embedded: ServedModel, slow: tuple[Echo, ServedModel]) -> Iterator[str]:
    _, served = echo("settings")
    facts = served.facts.model_copy(
        update={"strategy": "viterbi:"}
    )  # a strategy with its settings, here none
    models = {"en-de": embedded, "echo": slow[1], "settings": ServedModel(served.translator, facts)}
    with running(create_app(models)) as address:
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
    text = "The best way to learn French is to live in a French-speaking country."
    page.type(text)
    page.choose("strategy", "greedy")
    greedy = embedded.translator.with_options(TranslateOptions(strategy="greedy"))(text)
    page.until_shown(TRANSLATION, greedy.text)
    page.choose("strategy", embedded.facts.strategy)
    page.set("[name=length_penalty]", "3")
    longer = embedded.translator.with_options(TranslateOptions(length_penalty=3.0))(text)
    assert longer.text != greedy.text
    page.until_shown(TRANSLATION, longer.text)
    assert page.shown("[name=beta-value]") == "3.0"
    page.choose("model", "echo")
    page.type("one two")
    page.until_shown(TRANSLATION, "one two")
    assert page.find("[name=strategy]").get_attribute("value") == "viterbi"


def test_two_settings_side_by_side(page: Browser) -> None:
    page.choose("model", "echo")
    page.type("one two three")
    page.find("#compare").click()
    page.until(lambda: [line.text for line in page.all(TRANSLATION)] == ["one two three"] * 2)
    assert [entry.get_attribute("value") for entry in page.all("[name=strategy]")] == [
        "viterbi",
        "joint-viterbi",
    ]
    assert not page.all("mark")
    page.choose("model", "en-de", panel=1)
    page.until(lambda: page.all("mark"))
    assert {panel.rect["y"] for panel in page.all(".panel")} == {page.find(".panel").rect["y"]}
    page.find("#compare").click()
    page.until(lambda: len(page.all(".panel")) == 1 and not page.all("mark"))


def test_a_strategy_may_have_settings(page: Browser) -> None:
    page.choose("model", "settings")
    page.type("one two")
    page.until_shown(TRANSLATION, "one two")
    assert page.find("[name=strategy]").get_attribute("value") == "viterbi:"
    assert page.find("[name=length_penalty]").is_enabled()
    page.find("#compare").click()
    page.until(lambda: [line.text for line in page.all(TRANSLATION)] == ["one two"] * 2)
    assert page.all("[name=strategy]")[1].get_attribute("value") == "joint-viterbi"


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
    for _ in range(17):
        ActionChains(page.chrome).send_keys(Keys.TAB).perform()
        reached.append(page.run(FOCUSED))
    wanted = ["compare", "link", "model", "strategy", "length_penalty", "results", "terms", "summary", "1"]
    wanted += ["text", "svg", "latex", "png", "json"]
    assert [name for name in reached if name in wanted] == wanted


@pytest.mark.parametrize("text", [IMAGE, SCRIPT, f'{IMAGE} one &amp; " ]]>'])
def test_nothing_that_is_typed_or_translated_is_run(page: Browser, text: str) -> None:
    page.choose("model", "echo")
    page.type(text)
    page.until(lambda: page.shown(TRANSLATION))
    page.all(".trees [data-node]")[1].click()
    page.until(lambda: page.all(".alternatives li"))
    assert page.chrome.title == "pcfgnat"
    assert not page.all("main script, main img")
    assert text.split()[0] in page.run("return document.querySelector('.trees').textContent")
    assert text.split()[0] in page.shown(".alternatives")


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


def test_the_length_penalty_is_disabled_where_it_has_no_effect(page: Browser, embedded: ServedModel) -> None:
    texts = [
        "My brother has bought a new car, but it does not work.",
        SENTENCE,
        "I am not sure whether he comes.",
    ]
    for strategy in embedded.facts.strategies:
        if strategy == "sample":
            continue
        short, long = (
            embedded.translator.with_options(
                TranslateOptions(strategy=strategy, length_penalty=length_penalty)
            )(texts)
            for length_penalty in (-2.0, 5.0)
        )
        own = embedded.facts.strategy
        page.choose("strategy", own if own.startswith(f"{strategy}:") else strategy)
        works = [entry.text for entry in short] != [entry.text for entry in long]
        assert page.find("[name=length_penalty]").is_enabled() == works, strategy
        assert (page.shown("[name=beta-value]") == f"no effect on {strategy}") == (not works)
    assert embedded.facts.penalised_strategies == ["viterbi", "joint-viterbi", "mbr"]


def test_the_model_tells_of_itself(page: Browser, embedded: ServedModel) -> None:
    card = embedded.facts.card
    assert page.shown(".about dl") == ""
    page.find(".about summary").click()
    page.until(lambda: page.shown(".about dl"))
    told = page.shown(".about dl")
    assert card.limits
    for text in (embedded.facts.title, "English to German", card.data, card.limits, card.licence):
        assert text in told
    assert f"Up to {embedded.facts.max_source_tokens} subword tokens" in told
    assert "At most 2000 characters" in told
    assert page.shown(".target") == "German"
    page.set("#text", "Größe 😀")  # older drivers cannot type it
    assert page.shown("#count") == "7 of 2000 characters"
    page.choose("model", "echo")
    assert "English to German" not in page.shown(".about dl")
    assert page.shown(".target") == "Translation"


def test_the_best_translations_can_be_chosen(page: Browser, embedded: ServedModel) -> None:
    text = UNSURE
    found = embedded.translator.with_options(TranslateOptions(results=3))(text)
    page.choose("results", "3")
    page.type(text)
    page.until(lambda: len(page.all(".candidates li")) == 3)
    texts = [line.text for line in page.all(".candidates .candidate > span:first-child")]
    assert texts == [candidate.text for candidate in found.candidates]
    assert page.shown(TRANSLATION) == texts[0]
    page.all(".candidates button")[2].click()
    page.until_shown(TRANSLATION, texts[2])
    tree = found.alternatives[1].tree
    assert tree is not None
    nodes = [int(node.get_attribute("data-node") or 0) for node in page.all(".trees .node")]
    assert nodes == list(tree.nodes)
    pressed = [button.get_attribute("aria-pressed") for button in page.all(".candidates button")]
    assert pressed == ["false", "false", "true"]
    page.all(".trees [data-node]")[1].click()
    page.until(lambda: page.all(".alternatives li"))
    assert len(page.all(".alternatives li.chosen")) == 2  # the token and the rule of this tree
    page.choose("strategy", "greedy")
    page.until_shown(".notes", "greedy found 1 of 3 translations")
    assert not page.shown(".candidates")


def test_alternatives_of_a_text_that_was_split(page: Browser) -> None:
    page.choose("results", "2")
    page.set("#text", f"{SENTENCE} " * 24)
    page.until(lambda: len(page.all(".candidates li")) == 2)
    first = page.shown(TRANSLATION)
    parts = len(page.all(".trees svg"))
    assert parts > 1
    page.all(".candidates button")[1].click()
    page.until(lambda: page.shown(TRANSLATION) != first)
    assert len(page.all(".trees svg")) == parts


def test_a_link_brings_back_text_and_settings(page: Browser, embedded: ServedModel, address: str) -> None:
    text = "Größe & 50 % of #1 + ?=\nfine"
    page.set("#text", text)
    page.choose("results", "2")
    page.set("[name=length_penalty]", "0.7")
    page.find("#compare").click()
    page.until(lambda: len(page.all(".panel")) == 2)
    page.choose("model", "echo", panel=1)
    page.choose("strategy", "greedy", panel=1)
    page.cdp("Browser.grantPermissions", origin=address, permissions=CLIPBOARD)
    page.find("#link").click()
    page.until_shown("#told", "Copied the link.")
    link = page.run("return navigator.clipboard.readText()")
    assert link.startswith(f"{address}/#text=Gr")
    page.chrome.get("about:blank")
    page.chrome.get(link)
    page.until(lambda: len(page.all(".panel")) == 2)
    values = page.run(SETTINGS)
    assert values == [["en-de", embedded.facts.strategy, "0.7", "2"], ["echo", "greedy", values[1][2], "2"]]
    assert page.find("#text").get_attribute("value") == text
    page.until(lambda: page.shown(TRANSLATION))


def test_links_may_say_anything(page: Browser, embedded: ServedModel, address: str) -> None:
    page.chrome.get(f"{address}/#text=one&model=gone&strategy=%00&length_penalty=1e999&results=-7")
    page.until(lambda: "names the model gone" in page.shown("#told"))
    page.until(lambda: page.shown(TRANSLATION))
    assert page.find("[name=results]").get_attribute("value") == "1"
    penalty = page.find("[name=length_penalty]").get_attribute("value")
    assert float(penalty or 0) == embedded.facts.length_penalty
    page.chrome.get(f"{address}/#text={IMAGE}&model=echo&results=99")  # the same page, another link
    page.until(lambda: page.find("[name=model]").get_attribute("value") == "echo")
    assert page.find("[name=results]").get_attribute("value") == "8"
    page.until(lambda: page.shown(TRANSLATION))
    assert page.chrome.title == "pcfgnat"


def test_trees_and_translations_can_be_saved(page: Browser, embedded: ServedModel, tmp_path: Path) -> None:
    page.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.type(SENTENCE)
    page.until(lambda: page.all(".trees [data-node]"))
    for kind in ("png", "json"):
        page.find(f"[data-save={kind}]").click()
    page.until(lambda: {path.name for path in tmp_path.iterdir()} == {"tree.png", "translation.json"})
    data = json.loads((tmp_path / "translation.json").read_text(encoding="utf-8"))
    assert (data["model"], data["strategy"]) == ("en-de", embedded.facts.strategy)
    assert data["length_penalty"] == embedded.facts.length_penalty
    assert data["text"] == embedded.translator(SENTENCE).text
    assert "svg" not in data
    assert draw_terminal(data["tree"])
    picture = imread(tmp_path / "tree.png")
    size = page.find(".trees svg").size
    assert picture.shape[:2] == pytest.approx((2 * size["height"], 2 * size["width"]), abs=2)
    assert picture[0, 0, :3] == pytest.approx([1.0, 1.0, 1.0])  # the card of the light page
    colours = {
        tuple(pixel) for pixel in (picture[:, :, :3].reshape(-1, 3) * 255).round().astype(int).tolist()
    }
    assert any(green > red + 60 and blue > red + 50 for red, green, blue in colours)  # the page's main chain
    page.type(" ")
    page.until(lambda: not page.find("[data-save=png]").is_enabled())


def test_it_fits_a_phone_and_the_dark(page: Browser) -> None:
    page.size(360, 740)
    page.type("Where is the train station in this small town?")
    page.until(lambda: page.all(".trees [data-node]"))
    assert page.run("return document.documentElement.scrollWidth") <= 360
    assert page.run("const t = document.querySelector('.trees'); return t.scrollWidth <= t.clientWidth")
    fields = [field.rect for field in page.all(".field select")]
    for i, field in enumerate(fields):
        for other in fields[:i]:
            beside = field["x"] >= other["x"] + other["width"] or other["x"] >= field["x"] + field["width"]
            assert beside or abs(field["y"] - other["y"]) >= field["height"]
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
    posts, gets = ("translate", "explain"), ("models", "healthz", "metrics", "languages", "health")
    assert titles == [*(f"POST /{name}" for name in posts), *(f"GET /{name}" for name in gets)]
    assert "at most 2000 characters" in chromium.shown("main")
    loaded = chromium.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded
    assert all(name.startswith(address) for name in loaded)
    assert chromium.complaints() == []


def test_terms_are_kept_and_framed_and_doubt_is_shown(page: Browser, embedded: ServedModel) -> None:
    page.type("The house is old.")
    page.set("[name=terms]", "house = Gebäude; -alt; unfinished =")
    page.until(lambda: "Gebäude" in page.shown(TRANSLATION))
    assert "alt" not in page.shown(TRANSLATION).strip(".").split()
    framed = page.all(".trees .forced text")
    assert [node.text for node in framed] == ["Gebäude"]
    unsure = page.all(f"{TRANSLATION} .unsure")
    assert "Gebäude" in [word.text.strip(".") for word in unsure]
    assert all(
        (word.get_attribute("title") or "").endswith("% sure") for word in page.all(".translation .word")
    )
    page.find(".trees .forced").click()
    page.until(lambda: "Gebäude" in page.shown(".alternatives h3") and page.all(".alternatives .columns"))
    page.set("[name=terms]", "Ω")
    page.until_shown(".notes", "cannot require 'Ω'")
    page.set("[name=terms]", "^Dieses; <20; <0; <")
    page.until(lambda: page.shown(TRANSLATION).startswith("Dieses"))
    assert len(page.shown(TRANSLATION)) <= 20
