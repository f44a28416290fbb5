"""Parse trees as values: structure, spans, and every notation there and back."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from pcfgnat.structures import ParseTree, SupportTree
from tests.support.oracle import GrammarOracle, derivations

BOAT = ["<s>", "You", "are", "gonna", "need", "a", "bigger", "boat", "</s>"]


def boat() -> ParseTree:
    """The paper's example sentence over main-chain nodes <s>, You, need, boat, </s>."""
    support = SupportTree(5, 2)  # main chain 1, 5, 9, 13, 17
    nodes = (1, 5, 7, 8, 9, 11, 12, 13, 17)
    rules = (-0.1, -0.2, -0.3, 0.0, -0.4, -0.5, 0.0, -0.6, 0.0)
    return ParseTree(support, nodes, tuple(range(10, 19)), rules, (-1.0,) * 9, tuple(BOAT))


def test_structure_is_read_off_the_symbols() -> None:
    tree = boat()
    need, boat_, gonna = 4, 7, 3
    assert tree.children[0] == (None, 1)
    assert tree.children[1] == (None, need)
    assert tree.children[need] == (2, boat_)
    assert tree.children[2] == (None, gonna)
    assert tree.children[gonna] == (None, None)
    assert tree.spans[0] == (0, 9)
    assert tree.spans[need] == (2, 9)
    assert tree.spans[2] == (2, 4)
    assert tree.main_chain == (0, 1, need, boat_, 8)
    assert tree.depths == (0, 1, 3, 4, 2, 4, 5, 3, 4)
    assert tree.log_prob == pytest.approx(-2.1 - 9.0)


@pytest.mark.parametrize(("length", "depth"), [(5, 0), (5, 1), (4, 2), (3, 3)])
def test_every_derivation_is_rebuilt_from_its_symbols(length: int, depth: int) -> None:
    support = SupportTree(length, depth)
    for derivation in derivations(support):
        tree = ParseTree(support, derivation.nodes, (0,) * len(derivation.nodes))
        found = {
            (tree.nodes[i], tree.nodes[left] if left is not None else 0, tree.nodes[right])
            for i, (left, right) in enumerate(tree.children)
            if right is not None
        }
        assert found == set(derivation.rules)
        assert all(left is None for left, right in tree.children if right is None)


@pytest.mark.parametrize(("length", "depth"), [(5, 0), (5, 1), (4, 2), (3, 3)])
def test_rules_are_looked_up_in_the_tables(length: int, depth: int) -> None:
    support, numbers = SupportTree(length, depth), np.random.default_rng(0)
    chain = numbers.normal(size=(length, support.block, length))
    prefix = numbers.normal(size=(length, len(support.prefix_rules())))
    oracle = GrammarOracle(support, chain, prefix, None)
    for derivation in derivations(support):
        emitted = [-1.0] * len(derivation.nodes)
        tree = ParseTree(support, derivation.nodes, (0,) * len(derivation.nodes))
        trusted = ParseTree.derived(support, derivation.nodes, tree.tokens)
        assert (trusted, trusted.children) == (tree, tree.children)
        scored = trusted.scored(chain, prefix, emitted)
        assert scored.rule_log_probs is not None
        expected = {node: oracle.rule(node, left, right) for node, left, right in derivation.rules}
        assert scored.rule_log_probs == tuple(expected.get(node, 0.0) for node in derivation.nodes)
        assert scored.log_prob == pytest.approx(sum(expected.values()) - len(emitted))


@given(st.data())
def test_all_notations_are_read_back(data: st.DataObject) -> None:
    support = SupportTree(*data.draw(st.sampled_from([(2, 0), (5, 0), (5, 1), (4, 2), (3, 3)])))
    derivation = data.draw(st.sampled_from(derivations(support)))
    count = len(derivation.nodes)
    scores = st.floats(-50, 0) | st.just(-math.inf)
    words = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    tree = ParseTree(
        support,
        derivation.nodes,
        tuple(data.draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))),
        tuple(data.draw(st.lists(scores, min_size=count, max_size=count))),
        tuple(data.draw(st.lists(scores, min_size=count, max_size=count))),
        tuple(data.draw(st.lists(words, min_size=count, max_size=count))),
    )
    assert ParseTree.from_dict(tree.to_dict()) == tree
    assert ParseTree.from_json(tree.to_json()) == tree
    bare = ParseTree(support, tree.nodes, tree.tokens)
    assert ParseTree.from_brackets(bare.to_brackets(), support.prefix_depth) == bare
    assert ParseTree.from_json(bare.to_json()) == bare


def test_bracket_notation_is_what_nltk_reads() -> None:
    tree = boat()
    text = tree.to_brackets()
    assert text == (
        "(V1 <s> (V5 You (V9 (V7 are (V8 gonna)) need (V13 (V11 a (V12 bigger)) boat (V17 </s>)))))"
    )
    parsed = Tree.fromstring(text)
    assert parsed.leaves() == BOAT
    assert parsed.label() == "V1"
    ids = dict(zip(BOAT, tree.tokens, strict=True))
    again = ParseTree.from_brackets(text, 2, ids.__getitem__)
    assert (again.nodes, again.tokens, again.words) == (tree.nodes, tree.tokens, tree.words)


def test_brackets_and_spaces_in_words_survive() -> None:
    tree = ParseTree(SupportTree(3, 0), (1, 2, 3), (4, 5, 6)).with_words(["(", "a b", ""])
    assert tree.to_brackets() == "(V1 -LRB- (V2 a␣b (V3 -NONE-)))"
    assert Tree.fromstring(tree.to_brackets()).leaves() == ["-LRB-", "a␣b", "-NONE-"]
    again = ParseTree.from_brackets(tree.to_brackets(), 0, {"(": 4, "a b": 5, "": 6}.__getitem__)
    assert again == tree


def test_long_sentences_need_no_recursion() -> None:
    length = 5000
    tree = ParseTree(SupportTree(length, 0), tuple(range(1, length + 1)), (7,) * length)
    assert tree.depths[-1] == length - 1
    assert tree.spans[0] == (0, length)
    assert ParseTree.from_brackets(tree.to_brackets(), 0) == tree
    assert ParseTree.from_json(tree.to_json()) == tree


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((1, 5, 9), r"from root 1 to last node 13, got 1 … 9"),
        ((5, 13), r"from root 1 to last node 13, got 5 … 13"),
        ((), r"from root 1 to last node 13, got none"),
        ((1, 9, 5, 13), "strictly increasing"),
        ((1, 2, 9, 13), r"nodes \[2\] must all be in the prefix tree of main-chain node 2"),
        ((1, 3, 5, 13), "node 3 is an inner node of a prefix tree and needs a right child"),
        ((1, 2, 4, 5, 13), r"nodes \[2, 4\] have no common ancestor among them"),
        ((1, 12, 13), "the last node has no prefix tree"),
    ],
)
def test_symbols_that_form_no_derivation_are_refused(nodes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParseTree(SupportTree(4, 2), nodes, (0,) * len(nodes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(V1 0 (V2 1", "must close every bracket"),
        ("(V1 0 (V2 1)))", "closes more brackets than it opens"),
        ("0 (V1 1)", "word '0' stands outside the brackets"),
        ("( 0)", "must open with a symbol"),
        ("", "must close every bracket and hold a word"),
        ("(V1 Haus (V2 1))", "invalid literal"),
    ],
)
def test_broken_brackets_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParseTree.from_brackets(text, 0)


def broken(**changes: Any) -> dict[str, Any]:
    return {**boat().to_dict(), **changes}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "needs chain_length, prefix_depth and nodes"),
        (broken(chain_length="5"), "expected a whole number, got '5'"),
        (broken(prefix_depth=True), "expected a whole number, got True"),
        (broken(nodes=[{"node": 1}]), "needs chain_length, prefix_depth and nodes with node and token"),
        (broken(nodes=7), "needs chain_length"),
        (
            broken(nodes=[{"node": 1, "token": 0, "span": [0, 9]}, {"node": 17, "token": 0}]),
            "must have children",
        ),
        (broken(chain_length=2**40), "from root 1 to last node"),
    ],
)
def test_broken_dicts_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParseTree.from_dict(data)


def test_broken_json_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a JSON object, got list"):
        ParseTree.from_json("[]")
    with pytest.raises(json.JSONDecodeError):
        ParseTree.from_json("{")
    with pytest.raises(ValueError, match="JSON of a few levels, got too many"):
        ParseTree.from_json("[" * 100_000)


def test_json_is_one_line_that_people_can_read() -> None:
    text = ParseTree(SupportTree(2, 0), (1, 2), (4, 5)).with_words(["Straße", "…"]).to_json()
    assert '"word": "Straße"' in text
    assert "\n" not in text


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="words must have 2 entries, one a node, got 1"):
        ParseTree(SupportTree(2, 0), (1, 2), (0, 0), words=("a",))
    with pytest.raises(ValueError, match="carries no probabilities"):
        _ = ParseTree(SupportTree(2, 0), (1, 2), (0, 0)).log_prob


def test_words_must_be_as_many_as_nodes() -> None:
    tree = ParseTree(SupportTree(3, 0), (1, 2, 3), (4, 5, 6))
    with pytest.raises(ValueError, match="words must have 3 entries, one a node, got 2"):
        tree.with_words(["a", "b"])
    worded = tree.with_words(["a", "b", "c"])
    assert (tree.words, worded.words, worded.children) == (None, ("a", "b", "c"), tree.children)
