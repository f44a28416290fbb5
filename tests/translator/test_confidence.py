"""Confidence of words against every sentence with every tree and every path."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from pcfgnat.grammar.acceptance import log_acceptance
from pcfgnat.structures.by_length import ByLength
from pcfgnat.text.automata import contains
from pcfgnat.text.surfaces import Surfaces
from pcfgnat.translator.confidence import word_confidences, words_of
from tests.decoding.test_constraints import SURFACES, Sentence, grammar_of, paths, text_of, trees
from tests.decoding.test_structured import alone
from tests.support.constrained import rules_of
from tests.support.lattices import random_dag
from tests.support.sentences import BOS, EOS


def share(found: Sequence[Sentence], word: str, times: int) -> float:
    weights = [math.exp(score) for score, _, _ in found]
    having = [text_of(ids).split().count(word) >= times for _, ids, _ in found]
    return sum(w for w, has in zip(weights, having, strict=True) if has) / sum(weights)


def check(distribution: ByLength, every: list[list[Sentence]], ids: list[list[int]]) -> None:
    results = word_confidences(alone(distribution, len(ids)), [[0]] * len(ids), ids, SURFACES)
    for found, own, words in zip(every, ids, results, strict=True):
        assert [word.text for word in words] == text_of(tuple(own)).split()
        for place, word in enumerate(words):
            times = sum(other.text == word.text for other in words[: place + 1])
            assert word.confidence == pytest.approx(share(found, word.text, times), abs=1e-12)


@pytest.mark.parametrize(("depth", "sizes"), [(0, [6, 3]), (1, [4, 3]), (2, [3]), (3, [3])])
def test_grammars(depth: int, sizes: list[int]) -> None:
    every = [list(trees(depth, sizes, index)) for index in range(len(sizes))]
    ids = [[BOS, 4, 6, 4, EOS], [BOS, 6, 5, 4, EOS]][: len(sizes)]
    check(grammar_of(depth, sizes), every, ids)


def test_graphs() -> None:
    sizes = [6, 4]
    graph = random_dag(sizes, len(SURFACES.texts), seed=2)
    every = [list(paths(graph, size, index)) for index, size in enumerate(sizes)]
    check(graph, every, [[BOS, 4, 5, 4, 6, EOS], [BOS, 6, EOS]])


def test_what_nothing_can_write_has_no_weight() -> None:
    grammar = grammar_of(1, [4])
    chances = np.exp(grammar.grammars(None).symbol_log_probs(0))
    assert log_acceptance(rules_of(grammar, 0), chances, contains(["c"], SURFACES)) == -math.inf


def test_words() -> None:
    texts = ("", "", "", "", " geht", "'", "s", " 東京", "都", "-", " E", ".", " 9")
    surfaces = Surfaces(texts)
    assert list(words_of([2, 4, 5, 6, 11, 10, 9, 4, 5, 3], surfaces)) == [
        ("geht's", 0, 3),
        ("E", 4, 5),
        ("geht", 6, 7),
    ]
    assert list(words_of([2, 7, 8, 12, 11, 3], surfaces)) == [("東京", 0, 1), ("都", 1, 2), ("9", 2, 3)]
    assert list(words_of([2, 3], surfaces)) == []
