import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcfgnat.draw import svg_style, tree_svg
from pcfgnat.draw.scene import DARK, LIGHT
from pcfgnat.draw.text import shown
from tests.draw.trees import chain, weather

NAMESPACE = "{http://www.w3.org/2000/svg}"
ATTACK = "</text></svg><script>alert(1)</script>\"'<img src=x onerror=alert(1)>&lt;]]>"


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def nodes(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{NAMESPACE}g") if "node" in group.attrib["class"].split()]


def words(root: ElementTree.Element) -> list[str]:
    return [str(group.find(f"{NAMESPACE}text").text) for group in nodes(root)]  # type: ignore[union-attr]


def test_nodes_can_be_found() -> None:
    found = nodes(parsed(tree_svg(weather())))
    assert [group.attrib["data-node"] for group in found] == ["1", "3", "5", "7", "8", "9", "11", "15", "17"]
    assert [group.attrib["data-position"] for group in found] == [str(i) for i in range(9)]
    assert [group.attrib["class"] for group in found][3:5] == ["node chain", "node prefix"]
    assert all(group.find(f"{NAMESPACE}title") is not None for group in found)
    title = found[5].find(f"{NAMESPACE}title")
    assert title is not None
    assert "rule 50.0 %" in str(title.text)


def test_the_main_chain_stands_on_one_line() -> None:
    root = parsed(tree_svg(weather()))
    places = [
        (float(text.attrib["x"]), float(text.attrib["y"]))
        for group in nodes(root)
        for text in group.iter(f"{NAMESPACE}text")
        if group.attrib["class"] != "node prefix"
    ]
    assert len({y for _, y in places}) == 1
    assert [x for x, _ in places] == sorted(x for x, _ in places)


def test_lines_name_their_ends() -> None:
    paths = parsed(tree_svg(weather())).iter(f"{NAMESPACE}path")
    pairs = [(path.attrib["data-from"], path.attrib["data-to"]) for path in paths if "data-to" in path.attrib]
    assert ("9", "8") in pairs
    assert ("7", "9") in pairs


def test_words_are_data_and_never_code() -> None:
    picture = tree_svg(chain(["<s>", ATTACK, "▁" + ATTACK, "</s>"]), caption=ATTACK)
    root = parsed(picture)
    kinds = {element.tag.removeprefix(NAMESPACE) for element in root.iter()}
    assert kinds == {"svg", "style", "rect", "path", "g", "title", "text"}
    assert not re.search(r"<(script|img)|javascript:|href", picture)
    assert "alert(1)" in words(root)[1]
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not any(name.startswith("on") for name in attributes)


@settings(max_examples=30)
@given(st.lists(st.text(max_size=8), min_size=2, max_size=6), st.text(max_size=30))
def test_any_text_makes_a_good_file(tokens: list[str], caption: str) -> None:
    root = parsed(tree_svg(chain(tokens), caption=caption))
    assert words(root) == [shown(token) for token in tokens]


def test_several_pictures_in_a_page_do_not_disturb_it_or_each_other() -> None:
    root = parsed(tree_svg(weather()))
    assert not any("id" in element.attrib for element in root.iter())
    flat = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", svg_style())
    selectors = [part for rule in re.findall(r"([^{}]+)\{", flat) for part in rule.split(",")]
    assert len(selectors) > 10
    assert all(selector.startswith("svg.pcfgnat-picture") for selector in selectors)


def test_light_and_dark() -> None:
    automatic, light, dark = (tree_svg(weather(), theme=theme) for theme in ("auto", "light", "dark"))
    assert "prefers-color-scheme:dark" in automatic
    assert DARK.ink in automatic
    assert LIGHT.ink in automatic
    assert DARK.ink not in light
    assert LIGHT.ink not in dark
    assert "@media" not in light + dark
    assert "--pcfgnat-ink" in automatic  # a page may choose its own colours


def test_programs_without_variables_see_colours() -> None:
    for declaration in re.findall(r"(\w+):var\(--(\w+)\)", svg_style("light")):
        plain = f"{declaration[0]}:{getattr(LIGHT, declaration[1])};{declaration[0]}:var(--{declaration[1]})"
        assert plain in svg_style("light")


def test_the_picture_is_described_for_those_who_cannot_see_it() -> None:
    assert parsed(tree_svg(weather())).attrib["aria-label"] == "Das Wetter ist heute schö n ."
    assert parsed(tree_svg(weather(), caption="Schön\nheute")).attrib["aria-label"] == "Schön heute"


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="must have nodes"):
        tree_svg({"nodes": []})
