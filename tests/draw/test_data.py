from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.draw.data import percent, read_tree
from tests.draw.trees import full, weather

MANY = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def changed(row: int, name: str, value: Any) -> dict[str, Any]:
    tree = weather()
    tree["nodes"][row][name] = value
    return tree


def test_depths_and_probabilities() -> None:
    words = read_tree(full())
    assert [word.depth for word in words] == [0, 3, 2, 3, 1, 3, 2, 3, 0, 0]
    assert {word.token_probability for word in words} == {None}
    first, second, *_ = read_tree(weather())
    assert first.token_probability == 1.0
    assert second.token_probability == pytest.approx(0.9)
    assert first.special
    assert not second.special
    assert read_tree(weather())[4].rule_probability is None  # it has no children to choose


def test_null_is_the_logarithm_of_nothing() -> None:
    assert read_tree(changed(1, "token_log_prob", None))[1].token_probability == 0.0


@pytest.mark.parametrize(
    ("row", "name", "value", "complaint"),
    [
        (1, "left", 5, "children of entry 1 of a tree's nodes must stand on either side of it among 9"),
        (1, "right", 9, "children of entry 1"),
        (1, "right", 3, "entry 3 of a tree's nodes must have one parent, got 1 and 2"),
        (1, "right", None, "entry 2 of a tree's nodes must hang in one tree"),
        (4, "main_chain", True, "entry 4 of a tree's nodes must hang in one tree"),
        (3, "main_chain", False, "entry 5 of a tree's nodes must hang in one tree"),
        (2, "main_chain", "yes", "'main_chain' in entry 2 of a tree's nodes must be of type"),
        (2, "node", None, "'node' in entry 2"),
        (2, "left", True, "'left' in entry 2"),
        (2, "token_log_prob", "x", "'token_log_prob' in entry 2 of a tree's nodes must be a number or null"),
        (2, "rule_log_prob", float("nan"), "'rule_log_prob' in entry 2"),
    ],
)
def test_what_is_no_tree_is_refused(row: int, name: str, value: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_tree(changed(row, name, value))


def test_missing_parts_are_named() -> None:
    with pytest.raises(ValueError, match=r"must be an object with a list `nodes`.*got nothing for `nodes`"):
        read_tree({})
    with pytest.raises(ValueError, match="got str for `nodes`"):
        read_tree({"nodes": "abc"})
    with pytest.raises(ValueError, match="a tree must have nodes, got none"):
        read_tree({"nodes": []})
    with pytest.raises(ValueError, match="entry 0 of a tree's nodes must be an object, got int"):
        read_tree({"nodes": [1]})
    tree = weather()
    del tree["nodes"][1]["left"]
    with pytest.raises(ValueError, match="entry 1 of a tree's nodes must have 'left', got node, token"):
        read_tree(tree)


@given(st.integers(0, 8), st.sampled_from(["node", "left", "right", "main_chain", "word"]), MANY)
def test_rubbish_is_drawn_or_refused(row: int, name: str, value: Any) -> None:
    try:
        read_tree(changed(row, name, value))
    except ValueError as error:
        assert "entry" in str(error)  # noqa: PT017


def test_percent() -> None:
    assert [percent(p) for p in (0.0, 1e-5, 0.005, 0.5, 0.9994, 1.0)] == [
        *("0 %", "<0.1 %", "0.5 %", "50.0 %"),
        *("99.9 %", "100 %"),
    ]
