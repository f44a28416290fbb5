"""The best sentences in one call, against all sentences with all trees."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pcfgnat.grammar.best import best_sentences
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.lengths import one_by_penalty
from pcfgnat.structures import DAG, SupportTree
from tests.support.constrained import assert_scored, sentences
from tests.support.grammars import random_grammar

# depth, chain lengths of a ragged batch, vocabulary
BATCHES = [(0, [6, 2, 4], 3), (1, [4, 2, 3], 3), (2, [3, 2], 3), (3, [3, 2], 2)]
PENALTIES = [-0.5, 0.0, 1.0, 2.5]


def garbled(grammars: Grammars) -> Grammars:
    """Rules with rubbish where there are none."""
    chain, prefix = grammars.chain.copy(), grammars.prefix.copy()
    for b, length in enumerate(grammars.chain_lengths.tolist()):
        chain[b, length:], chain[b, :, :, length:], prefix[b, length:] = np.nan, np.nan, np.nan
    return replace(grammars, chain=chain, prefix=prefix)


@pytest.mark.parametrize("limit", [3, 6])
@pytest.mark.parametrize(("depth", "chain_lengths", "vocabulary"), BATCHES)
def test_nothing_is_better(depth: int, chain_lengths: list[int], vocabulary: int, limit: int) -> None:
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=vocabulary)
    found = best_sentences(garbled(grammar.grammars(None)), [limit] * len(chain_lengths), PENALTIES)
    for index, own in enumerate(found):
        everything = list(sentences(grammar, index, vocabulary, limit))
        for penalty, best in zip(PENALTIES, own, strict=True):
            value, score, ids = max((score / len(ids) ** penalty, score, ids) for score, ids, _ in everything)
            assert best.ids == ids
            assert best.normalised_score(penalty) == pytest.approx(value, abs=1e-10)
            assert_scored(grammar, index, best, score)


@pytest.mark.parametrize(("depth", "chain_lengths"), [(0, [9, 2, 5]), (1, [7, 3]), (2, [5, 4, 2]), (3, [4])])
def test_tables_of_lengths_find_the_same(depth: int, chain_lengths: list[int]) -> None:
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=7, seed=3)
    grammars = grammar.grammars(None)
    limits = [min(most, 8 + index) for index, most in enumerate(grammars.max_lengths)]
    expected = grammars.by_length(limits, one_by_penalty(PENALTIES), joint=True)
    found = best_sentences(grammars, limits, PENALTIES)
    for own, theirs in zip(found, expected, strict=True):
        for first, second in zip(own, theirs, strict=True):
            assert (first.ids, first.nodes) == (second.ids, second.nodes)
            assert first.score == pytest.approx(second.score, abs=1e-10)
            assert first.tree is not None
            assert second.tree is not None
            assert first.tree.rule_log_probs == pytest.approx(second.tree.rule_log_probs, abs=1e-12)
            assert first.tree.token_log_probs == pytest.approx(second.tree.token_log_probs, abs=1e-12)


def test_graphs() -> None:
    generator = torch.Generator().manual_seed(1)
    transitions = torch.randn(2, 6, 6, generator=generator).triu(1)
    transitions = transitions.masked_fill(transitions == 0, -torch.inf).log_softmax(-1)
    emit = torch.randn(2, 6, 5, generator=generator).log_softmax(-1)
    grammars = DAG(transitions, emit, torch.tensor([6, 4])).grammars(None)
    expected = grammars.by_length([6, 4], one_by_penalty(PENALTIES), joint=True)
    found = best_sentences(grammars, [6, 4], PENALTIES)
    assert [[one.ids for one in own] for own in found] == [[one.ids for one in own] for own in expected]
    assert [[one.nodes for one in own] for own in found] == [[one.nodes for one in own] for own in expected]


def test_a_limit_without_a_derivation_is_an_error() -> None:
    grammars = random_grammar(SupportTree(4, 1), [4, 3]).grammars(None)
    with pytest.raises(ValueError, match="sentence 0 has no derivation of at most 1 tokens"):
        best_sentences(grammars, [1, 3], [1.0])
