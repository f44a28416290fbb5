"""Shapes of hand-made trees, and of a small model's against enumeration."""

import json
from pathlib import Path

import pytest

from pcfgnat.analysis import structure, structure_report
from pcfgnat.analysis.structure import Shape, shape_of, summary
from pcfgnat.analysis.subject import Walk
from pcfgnat.analysis.trees import parsed
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.structures import RHPCFG, Padded, ParseTree, SupportTree
from tests.analysis.subjects import png_size, subject, texts
from tests.support.grammars import oracle

PAIRS = [("runs", "the boat runs"), ("", "boat"), ("very", "bo@@ thers runs , ."), ("the", "")]


def tree(support: SupportTree, *nodes: int) -> ParseTree:
    return ParseTree(support, nodes, (0,) * len(nodes))


def test_shape_of_prefix_trees() -> None:
    # main chain 1, 5, 9, 13, 17: <s> You (are (gonna)) need (a (bigger)) boat </s>
    found = shape_of(tree(SupportTree(5, 2), 1, 5, 7, 8, 9, 11, 12, 13, 17), entropy=0.5)
    assert found == Shape(
        tokens=7,
        prefix_sizes=(0, 2, 2),
        prefix_depth=2,
        depth=5,
        skips=(0, 0, 0, 0),
        chain=5,
        symbols=17,
        entropy=0.5,
    )
    assert found.in_prefix == 4


def test_shape_of_skips() -> None:
    # main chain 1, 3, 5, 7, 9, 11: from the root over 3 to 5 with its prefix 4, over 7 and 9 to the last
    found = shape_of(tree(SupportTree(6, 1), 1, 4, 5, 11))
    assert (found.prefix_sizes, found.skips, found.prefix_depth, found.depth) == ((1,), (1, 2), 1, 2)
    empty = shape_of(tree(SupportTree(6, 1), 1, 11))
    assert (empty.tokens, empty.prefix_sizes, empty.skips, empty.prefix_depth) == (0, (), (4,), 0)
    assert empty.depth == 1


def test_shape_of_a_path() -> None:
    found = shape_of(tree(SupportTree(6, 0), 1, 2, 5, 6))
    assert (found.prefix_sizes, found.skips, found.symbols, found.depth) == ((0, 0), (0, 2, 0), 6, 3)


def test_summary_by_hand() -> None:
    grammar = SupportTree(6, 1)
    shapes = [
        shape_of(tree(grammar, 1, 4, 5, 11), 1.0),
        shape_of(tree(grammar, 1, 3, 4, 5, 7, 11), 2.0),
        shape_of(tree(grammar, 1, 11), 0.0),
    ]
    found = summary(shapes)
    assert found["sentences"] == 3
    assert found["tokens"] == pytest.approx((2 + 4 + 0) / 3)
    assert found["tokens_in_prefix_trees"] == pytest.approx(2 / 6)
    assert found["nodes_with_prefix_tree"] == pytest.approx(2 / 4)
    assert found["tokens_per_prefix_tree"] == 1.0
    assert found["prefix_depth"] == pytest.approx(2 / 3)
    assert found["depth"] == pytest.approx((2 + 4 + 1) / 3)
    assert found["skips_per_step"] == pytest.approx((1 + 2 + 0 + 0 + 0 + 1 + 4) / 7)
    assert found["steps_that_skip"] == pytest.approx(4 / 7)
    assert found["chain_used"] == pytest.approx((3 + 5 + 2) / 18)
    assert found["canvas_used"] == pytest.approx((4 + 6 + 2) / 33)
    assert found["entropy"] == 1.0
    assert found["entropy_per_token"] == pytest.approx(3 / 6)


@pytest.mark.parametrize("source", ["reference", "translation"])
def test_trees_and_entropies_are_those_of_all_derivations(source: str) -> None:
    studied, corpus = subject("pcfg"), texts(*PAIRS)
    pairs = corpus.encoded(studied.tokenizer)
    found = parsed(
        Walk(studied, pairs), "reference" if source == "reference" else "translation", entropy=True
    )
    assert [item.index for item in found] == [0, 1, 2, 3]
    for item, (ids, reference) in zip(found, pairs, strict=True):
        grammar = translation_distribution(studied.network, Padded.from_lists([ids]))
        assert isinstance(grammar, RHPCFG)
        target = reference
        if source == "translation":
            (hypothesis,) = studied.translated([ids])
            target = list(hypothesis.ids)
        everything = oracle(grammar, 0)
        assert item.tree.tokens == tuple(target)
        assert item.tree.nodes == everything.of(target)[0][1].nodes
        assert item.entropy == pytest.approx(everything.entropy(target), abs=1e-9)


def test_report(tmp_path: Path) -> None:
    corpus = texts(*PAIRS, ("", " ".join(["boat"] * 30)))
    results = [structure(subject(kind), corpus) for kind in ("pcfg", "dag")]
    assert all(size == 0 for shape in results[1].shapes for size in shape.prefix_sizes)
    report = structure_report(corpus, results)
    paths = report.write(tmp_path)
    data = json.loads(paths[1].read_text())
    grammar = data["models"][0]
    assert grammar["left_out"][0]["line"] == 5
    assert [row["line"] for row in grammar["sentences"]] == [1, 2, 3, 4]
    assert sum(grammar["skips"].values()) == sum(len(shape.skips) for shape in results[0].shapes)
    assert sum(row["sentences"] for row in grammar["by_length"].values()) == 4
    assert "## pcfg (pcfg)" in report.text
    assert "| all " in report.text
    assert png_size(paths[2])[1] > 700


def test_models_without_trees_are_refused() -> None:
    with pytest.raises(ValueError, match="ctc must be one of pcfg, dag, got ctc: others build no trees"):
        structure(subject("ctc"), texts(*PAIRS))
