"""The best different sentences, against all sentences with all trees."""

import math

import numpy as np
import pytest

from pcfgnat.grammar.continuations import SentenceRules, derived
from pcfgnat.grammar.free_lattice import FreeLattice
from pcfgnat.grammar.k_best import LeadingTokens
from pcfgnat.grammar.k_best import best_sentences as ranked_sentences
from pcfgnat.structures import RHPCFG, Hypothesis, SupportTree
from tests.support.constrained import assert_scored, emissions, rules_of, sentences
from tests.support.grammars import random_grammar

# depth, chain lengths of a ragged batch, vocabulary
BATCHES = [(0, [6, 2, 4], 3), (1, [4, 2, 3], 3), (2, [3, 2], 3), (3, [3], 2)]
LONGEST = 6


def best_sentences(
    rules: SentenceRules, tokens: np.ndarray, max_length: int, penalty: float, count: int
) -> list[Hypothesis]:
    lattice = FreeLattice.from_rules(rules.chain, rules.prefix, rules.chain_length)
    found = ranked_sentences(lattice, LeadingTokens.from_table(tokens, count), max_length, penalty, count)
    rows = zip(found.symbols.tolist(), found.ids.tolist(), found.token_scores.tolist(), strict=True)
    cut = [[part[:length] for part in row] for row, length in zip(rows, found.lengths.tolist(), strict=True)]
    sentences = [derived(rules, *row) for row in cut]
    assert [one.score for one in sentences] == pytest.approx(found.scores.tolist(), abs=1e-9)
    return sentences


def enumerated(
    grammar: RHPCFG, index: int, vocabulary: int, penalty: float
) -> list[tuple[float, tuple[int, ...]]]:
    """`score / L^β` of the best tree of every sentence, best first."""
    best = dict[tuple[int, ...], float]()
    for score, ids, _ in sentences(grammar, index, vocabulary, LONGEST):
        best[ids] = max(best.get(ids, -math.inf), score / len(ids) ** penalty)
    return sorted(((value, ids) for ids, value in best.items()), reverse=True)


@pytest.mark.parametrize("penalty", [-0.5, 0.0, 1.0])
@pytest.mark.parametrize(("depth", "chain_lengths", "vocabulary"), BATCHES)
def test_the_best_sentences_of_all(
    depth: int, chain_lengths: list[int], vocabulary: int, penalty: float
) -> None:
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=vocabulary)
    for index in range(len(chain_lengths)):
        expected = enumerated(grammar, index, vocabulary, penalty)[:30]
        found = best_sentences(rules_of(grammar, index), emissions(grammar, index), LONGEST, penalty, 30)
        assert [one.ids for one in found] == [ids for _, ids in expected]
        for hypothesis, (value, ids) in zip(found, expected, strict=True):
            assert_scored(grammar, index, hypothesis, value * len(ids) ** penalty)


def test_all_sentences_are_found_and_then_no_more() -> None:
    grammar = random_grammar(SupportTree(3, 1), vocabulary=2)
    everything = {ids for _, ids, _ in sentences(grammar, 0, 2)}
    found = best_sentences(rules_of(grammar, 0), emissions(grammar, 0), 9, 1.0, 1000)
    assert len(found) == len(everything)
    assert {one.ids for one in found} == everything


def test_what_a_symbol_may_not_emit_is_never_found() -> None:
    grammar = random_grammar(SupportTree(4, 1), vocabulary=3)
    tokens = emissions(grammar, 0).copy()
    tokens[1, 1:], tokens[2:, 0] = -math.inf, -math.inf  # token 0 stands first, and only there
    found = best_sentences(rules_of(grammar, 0), tokens, 5, 0.0, 40)
    allowed = {ids for _, ids, _ in sentences(grammar, 0, 3, 5) if ids[0] == 0 and 0 not in ids[1:]}
    assert {one.ids for one in found} == allowed
    tokens[1] = -math.inf
    assert best_sentences(rules_of(grammar, 0), tokens, 5, 0.0, 40) == []


def test_shorter_results_are_the_beginning_of_longer_ones() -> None:
    grammar = random_grammar(SupportTree(9, 1), vocabulary=30, scale=2.0)
    arguments = (rules_of(grammar, 0), emissions(grammar, 0), 12, 1.0)
    many = [one.ids for one in best_sentences(*arguments, 25)]
    assert len(set(many)) == 25
    for count in (1, 2, 7):
        assert [one.ids for one in best_sentences(*arguments, count)] == many[:count]
