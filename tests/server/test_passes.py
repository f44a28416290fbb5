"""Translations that were written in several passes, from Python to the page."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pcfgnat.checkpoints.metadata import Card, DecodingDefaults
from pcfgnat.server import ServedModel, create_app
from pcfgnat.server.models import facts_of
from pcfgnat.text import SubwordTokenizer
from pcfgnat.translator import Translator
from tests.server.browser import Browser, browsing, programs
from tests.server.served import echo, running
from tests.support.refinement import StubSlots, plainly_refined

TOKENIZER = SubwordTokenizer(b"one\ntwo\nthree\nfour\nfive")  # ids 4 to 8, those of the stub
SENTENCE = "one two three"
LENGTH, PASSES = 6, 4


def translator(strategy: str = f"update-all:iterations={PASSES},lengths=1") -> Translator:
    return Translator(StubSlots([LENGTH]), TOKENIZER, DecodingDefaults(strategy))


def expected() -> list[list[str]]:
    plain = plainly_refined(TOKENIZER.encode(SENTENCE), LENGTH, PASSES, update_all=True)
    return [TOKENIZER.pieces(ids)[1:-1] for ids in plain.passes]


def served() -> ServedModel:
    loaded = translator()
    return ServedModel(loaded, facts_of(loaded, "stub", "slots", Card(), ("", "")))


def test_a_translation_has_its_passes() -> None:
    found = translator()(SENTENCE)
    assert [list(pieces) for pieces in found.passes] == expected()
    assert found.to_dict()["passes"] == expected()
    assert found.pieces == found.passes[-1]
    assert len({tuple(pieces) for pieces in expected()}) > 1
    assert "passes" not in translator("greedy")(SENTENCE).to_dict()


def test_the_server_s_answer_has_them_where_there_are_several() -> None:
    with TestClient(create_app({"stub": served(), "echo": echo()[1]}), base_url="http://localhost") as client:
        answers = {
            model: client.post("/translate", json={"text": SENTENCE, "model": model}).json()
            for model in ("stub", "echo")
        }
    assert answers["stub"]["translations"][0]["passes"] == expected()
    assert not answers["echo"]["translations"][0].get("passes")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with browsing(tmp_path / "profile") as found:
        yield found
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)


@pytest.mark.skipif(None in programs(), reason="chromium and chromedriver are not installed")
def test_the_page_marks_what_changed_in_each_pass(browser: Browser) -> None:
    with running(create_app({"stub": served()})) as address:
        browser.open(address)
        browser.until(lambda: browser.all(".panel"))
        browser.type(SENTENCE)
        browser.until(lambda: browser.all(".passes li"))
        rows = browser.all(".passes li")
        assert [row.text.split() for row in rows] == expected()
        before: list[str] = []
        for row, pieces in zip(rows, expected(), strict=True):
            changed = [piece for i, piece in enumerate(pieces) if before[i : i + 1] != [piece]]
            assert [mark.text for mark in row.find_elements("css selector", "mark")] == changed
            before = pieces
        assert browser.complaints() == []
