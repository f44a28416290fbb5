import json
import math
import re
import textwrap
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pcfgnat.draw
from pcfgnat.draw import draw_terminal, text_cells
from pcfgnat.structures import ParseTree, SupportTree
from tests.support.oracle import derivations

SENTENCE = ("<bos>", "You", "are", "gonna", "need", "a", "bigger", "boat", ".", "<eos>")
NODES = (1, 5, 11, 12, 13, 15, 16, 17, 21, 25)
PICTURE = """\
<bos>──You──┬────────need─┬────────boat──.──<eos>
           are───┐        a───┐
               gonna        bigger"""


def paper_tree(
    words: tuple[str, ...] | None = SENTENCE, probabilities: tuple[float, ...] | None = None
) -> ParseTree:
    logs = None if probabilities is None else tuple(math.log(p) if p else -math.inf for p in probabilities)
    return ParseTree(SupportTree(7, 2), NODES, tuple(range(10)), logs, logs, words)


def columns_of(line: str) -> int:
    """Terminal columns of a line, counted in another way than the package does."""
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 1) for c in line)


def test_picture() -> None:
    assert draw_terminal(paper_tree().to_dict()) == PICTURE


def test_docstring_shows_the_picture() -> None:
    assert textwrap.indent(PICTURE, "    ") in str(pcfgnat.draw.__doc__)


def test_left_and_right_children_inside_a_prefix_tree() -> None:
    tree = ParseTree(
        SupportTree(3, 3), (1, 2, 3, 4, 5, 6, 7, 8, 9, 17), tuple(range(10)), words=tuple("0abcdefghz")
    )
    assert draw_terminal(tree.to_dict()) == textwrap.dedent("""\
        0───────┬───────h──z
            ┌───d───┐
          ┌─b─┐   ┌─f─┐
          a   c   e   g""")


def test_percentages() -> None:
    chances = (1.0, 0.97, 0.004, 0.0, 0.5, 0.25, 1.0, 0.994, 0.08, 1.0)
    *_, token, rule = draw_terminal(paper_tree(probabilities=chances).to_dict()).splitlines()
    assert token.split() == ["token", "%", "100", "97", "<1", "0", "50", "25", "100", "99", "8", "100"]
    assert rule.split() == ["rule", "%", "100", "97", "<1", "50", "25", "99", "8"]  # not gonna, bigger, <eos>


def test_percentages_stand_below_their_words() -> None:
    lines = draw_terminal(paper_tree(probabilities=(0.5,) * 10).to_dict()).splitlines()
    for match in re.finditer("50", lines[-2]):
        beside = slice(match.start(), match.end())
        assert sum(any(c.isalpha() or c in "<>." for c in line[beside]) for line in lines[:3]) == 1


def test_impossible_tokens_survive_json() -> None:
    plain = json.loads(paper_tree(probabilities=(0.5,) * 9 + (0.0,)).to_json())
    assert draw_terminal(plain).splitlines()[-2].split()[-1] == "0"


def test_ids_where_there_are_no_words() -> None:
    drawn = draw_terminal(paper_tree(words=None).to_dict())
    assert re.findall(r"\d+", drawn.splitlines()[0]) == ["0", "1", "4", "7", "8", "9"]


def test_wide_characters_take_two_columns() -> None:
    words = ("<bos>", "你们", "需要", "größere", "船", "한국어", "\uff21", "über", ".", "<eos>")
    chain, first, second = draw_terminal(paper_tree(words=words).to_dict()).splitlines()
    assert columns_of(first[: first.index("┐")]) == columns_of(second[: second.index("größere")]) + 3
    assert columns_of(chain[: chain.index("┬")]) == columns_of(first[: first.index("需")]) + 1
    assert text_cells("船a") == ("船", "", "a")


def test_accents_take_no_column() -> None:
    assert text_cells("u\u0308ber") == ("ü", "b", "e", "r")
    assert text_cells("q\u0308y") == ("q\u0308", "y")
    assert text_cells("船\u0308y") == ("船\u0308", "", "y")


def test_words_cannot_steer_the_terminal() -> None:
    assert text_cells("\x1b[2J\n\u202e") == ("�", "[", "2", "J", "␣", "�")
    assert text_cells("") == ("∅",)


def test_colour_only_when_asked_for() -> None:
    tree = paper_tree(probabilities=(0.5,) * 10).to_dict()
    plain, coloured = draw_terminal(tree), draw_terminal(tree, colour=True)
    assert "\x1b" not in plain
    assert "\x1b" in coloured
    assert [line.rstrip() for line in re.sub(r"\x1b\[\d+m", "", coloured).splitlines()] == plain.splitlines()


def test_long_words_are_shortened() -> None:
    words = ("<bos>", "Donaudampfschifffahrtsgesellschaft", "船" * 20, *SENTENCE[3:])
    drawn = draw_terminal(paper_tree(words=words, probabilities=(0.5,) * 10).to_dict(), width=20)
    assert "Donaudamp…" in drawn
    assert max(columns_of(line) for line in drawn.splitlines()) <= 20


def test_complaints() -> None:
    with pytest.raises(ValueError, match="width must be at least 20, got 19"):
        draw_terminal(paper_tree().to_dict(), width=19)
    with pytest.raises(ValueError, match="must have nodes"):
        draw_terminal({"nodes": []})


@given(st.integers(0, 3), st.integers(0, 10**6), st.integers(20, 60), st.booleans())
def test_the_sentence_can_be_read_off_the_drawing(depth: int, seed: int, width: int, probable: bool) -> None:
    support = SupportTree(6 if depth < 3 else 3, depth)
    trees = derivations(support)
    nodes = trees[seed % len(trees)].nodes
    logs = tuple(-float(i) for i in range(len(nodes))) if probable else None
    tree = ParseTree(support, nodes, tuple(range(100, 100 + len(nodes))), logs, logs)
    read = []
    for piece in draw_terminal(tree.to_dict(), width).split("\n\n"):
        lines = [line for line in piece.splitlines() if "%" not in line]
        assert all(len(line) <= width for line in piece.splitlines())
        read += sorted(
            (match.start(), match.group()) for line in lines for match in re.finditer(r"\d+", line)
        )
        read.append((0, ""))
    assert [word for _, word in read if word] == [str(token) for token in tree.tokens]
