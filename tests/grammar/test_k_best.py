"""The best different sentences, against all sentences with all trees."""

import math

import numpy as np
import pytest

from pcfgnat.grammar.continuations import SentenceRules, derived
from pcfgnat.grammar.free_lattice import FreeLattice
from pcfgnat.grammar.k_best import LeadingTokens, scored_sentences
from pcfgnat.grammar.k_best import best_sentences as ranked_sentences
from pcfgnat.grammar.kernels.k_best import align_columns, number_tokens, restrict_columns
from pcfgnat.structures import RHPCFG, Hypothesis, SupportTree
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.decoding.test_structured import best_sentences as allowed_sentences
from tests.decoding.test_structured import grammar_of
from tests.support.constrained import assert_scored, emissions, rules_of, sentences
from tests.support.grammars import oracle, random_grammar
from tests.support.sentences import BOS, EOS

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


@pytest.mark.parametrize(("chain_length", "depth"), [(5, 0), (4, 1), (3, 2), (3, 3)])
def test_given_sentences_have_their_best_trees(chain_length: int, depth: int) -> None:
    grammar = grammar_of(chain_length, depth, [chain_length, chain_length - 1])
    grammars = grammar.grammars(SPECIAL_TOKENS)
    for index in range(2):
        ranked = allowed_sentences(oracle(grammar, index), 6, 0.0)[:40]
        impossible = [(BOS, 4, EOS, 5, EOS), (BOS, *[4] * 40, EOS)]
        given = [*(ids for _, ids in ranked), *impossible]
        found = scored_sentences(grammars, index, given, SPECIAL_TOKENS)
        assert found.scores.tolist() == pytest.approx([*(value for value, _ in ranked), -math.inf, -math.inf])
        for place, (value, ids) in enumerate(ranked):
            own = found.hypothesis(grammars, index, place)
            assert own.ids == ids
            assert own.score == pytest.approx(value, abs=1e-9)


def test_the_best_token_of_a_node_is_what_others_call_it() -> None:
    """Rounding may find another token better; what decoding saw first counts."""
    leading, best = np.array([[7, 5, 4], [5, 4, 7], [9, 8, 7]]), np.array([7, 4, 3])
    ids = number_tokens(leading, best)
    assert ids[leading].tolist() == [[7, 5, 4], [4, 5, 7], [3, 9, 8]]
    assert sorted(ids.tolist()) == [3, 4, 5, 7, 8, 9]
    columns = np.zeros((3, len(ids)))
    align_columns(columns, leading, np.array([-1.0, 0.5, -2.0]))
    assert columns.max(1).tolist() == [-1.0, 0.5, -2.0]
    assert columns[1, leading[1, 0]] == 0.5
    assert columns[1].tolist().count(0.0) == len(ids) - 1


def test_bos_and_eos_stand_at_the_ends_only() -> None:
    ids, columns = np.array([BOS, 5, EOS, SPECIAL_TOKENS.unk]), np.zeros((5, 4), dtype=np.float32)
    restrict_columns(ids, columns, 1, 3, BOS, EOS, SPECIAL_TOKENS.ids)
    assert (columns == 0).tolist() == [
        [False, False, False, False],  # before the first node
        [True, False, False, False],
        [False, True, False, False],
        [False, False, True, False],
        [False, False, False, False],  # behind the last one
    ]
