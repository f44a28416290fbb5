"""What a notebook shows of a translation."""

from html.parser import HTMLParser
from typing import Any

from pcfgnat.structures import ParseTree
from pcfgnat.translator import Candidate, Translation
from tests.draw.trees import WEATHER, weather

ATTACK = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Collects tags and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def candidate(text: str, words: tuple[str, ...] = WEATHER) -> Candidate:
    return Candidate(text, -2.5, words[1:-1], ParseTree.from_dict(weather(words)))


def test_text_score_and_tree() -> None:
    shown = Elements(Translation.from_candidates("Nice.", [candidate("Schön.")])._repr_html_())
    assert shown.tags.count("svg") == 1
    assert "Schön." in shown.text
    assert "log P \N{MINUS SIGN}2.50" in shown.text
    assert "details" not in shown.tags


def test_alternatives_can_be_unfolded() -> None:
    found = Translation.from_candidates("Nice.", [candidate("Eins."), candidate("Zwei."), candidate("Drei.")])
    shown = Elements(found._repr_html_())
    assert shown.tags.count("svg") == 3
    assert "2 alternatives" in shown.text
    assert shown.text.index("Eins.") < shown.text.index("Zwei.") < shown.text.index("Drei.")


def test_parts_and_notes() -> None:
    parts = [Translation.from_candidates(source, [candidate(f"{source}!")]) for source in ("a", "b")]
    shown = Elements(Translation.joined("a b", parts, [" ", ""], ("split into 2 pieces",))._repr_html_())
    assert shown.tags.count("svg") == 2
    assert "split into 2 pieces" in shown.text
    assert "a! b!" in shown.text


def test_without_a_tree() -> None:
    shown = Elements(Translation.empty("")._repr_html_())
    assert "svg" not in shown.tags
    impossible = Translation("x", "y", float("-inf"), ("y",))
    assert "∞" in Elements(impossible._repr_html_()).text


def test_everything_is_escaped() -> None:
    words = ("<s>", *(f"▁{ATTACK}",) * 7, "</s>")
    part = Translation.from_candidates(ATTACK, [candidate(ATTACK, words), candidate(ATTACK, words)])
    shown = Elements(Translation.joined(ATTACK, [part, part], [" ", ""], (ATTACK,))._repr_html_())
    assert "script" not in shown.tags
    assert shown.text.count(ATTACK) > 10
