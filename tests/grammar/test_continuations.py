import math

import numpy as np
import pytest

from pcfgnat.grammar.automaton import Automaton, any_sentence, phrase_automaton
from pcfgnat.grammar.continuations import SentenceRules, best_continuations
from pcfgnat.grammar.reference import constrained_scores, without_repeats
from pcfgnat.grammar.tokens import FEW_COLUMNS, TokenRules, TopTokens, best_columns, token_candidates
from pcfgnat.structures import Search, SpecialTokens, SupportTree
from tests.support.constrained import (
    assert_scored,
    best_by_length,
    contains,
    emissions,
    repeats,
    rules_of,
    search,
    sentences,
)
from tests.support.grammars import random_grammar

# depth and the chain lengths of a ragged batch, few enough for all sentences to be enumerated
BATCHES = [(0, [6, 2, 4]), (1, [4, 2, 3]), (2, [3, 2]), (3, [3])]
CONSTRAINTS: list[tuple[list[list[int]], list[list[int]]]] = [
    ([], []),
    ([[1]], []),
    ([[1, 2]], []),
    ([[2, 2], [2, 1]], []),
    ([[0, 1]], [[2]]),
    ([], [[0, 0], [1]]),
]
SPECIAL = SpecialTokens(bos=0, eos=1, pad=2, unk=3)


def full_table(automaton: Automaton, vocabulary: int) -> np.ndarray:
    """A column for every token of the vocabulary."""
    return np.array(
        [[automaton.step(q, token) for token in range(vocabulary)] for q in range(len(automaton.table))]
    )


def longest(depth: int, size: int) -> int:
    return min(SupportTree(size, depth).max_length, 6 if depth < 3 else 5)


@pytest.mark.parametrize("no_repeats", [False, True])
@pytest.mark.parametrize(("required", "forbidden"), CONSTRAINTS)
@pytest.mark.parametrize(("depth", "chain_lengths"), BATCHES)
def test_equals_enumeration(
    depth: int,
    chain_lengths: list[int],
    required: list[list[int]],
    forbidden: list[list[int]],
    no_repeats: bool,
) -> None:
    vocabulary = 3
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=vocabulary)
    automaton = phrase_automaton(required, forbidden)

    def fulfilled(ids: tuple[int, ...]) -> bool:
        return (
            all(contains(ids, phrase) for phrase in required)
            and not any(contains(ids, phrase) for phrase in forbidden)
            and not (no_repeats and repeats(ids))
        )

    for index, size in enumerate(chain_lengths):
        limit = longest(depth, size)
        table = search(grammar, index, automaton, TokenRules(no_repeats=no_repeats), limit)
        expected = best_by_length(list(sentences(grammar, index, vocabulary, limit)), fulfilled, limit)
        assert table.scores.tolist() == pytest.approx(expected, abs=1e-10)
        for length, score in enumerate(expected):
            if score == -math.inf:
                with pytest.raises(ValueError, match=f"no sentence of {length} tokens"):
                    table.hypothesis(length)
                continue
            hypothesis = table.hypothesis(length)
            assert len(hypothesis.ids) == length
            assert fulfilled(hypothesis.ids)
            assert_scored(grammar, index, hypothesis, score)


@pytest.mark.parametrize("may_repeat", [None, frozenset[int](), frozenset({1, 4})])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("depth", "size"), [(0, 9), (1, 6), (2, 4), (3, 4)])
def test_equals_the_reference(depth: int, size: int, seed: int, may_repeat: frozenset[int] | None) -> None:
    """With a larger vocabulary, of which the search looks at few tokens; `None`: repeats are allowed."""
    vocabulary, limit = 9, min(SupportTree(size, depth).max_length, 12)
    grammar = random_grammar(SupportTree(size, depth), vocabulary=vocabulary, seed=seed, scale=2.0)
    automaton = phrase_automaton([[1, 2], [3]], [[4, 5]])
    table = full_table(automaton, vocabulary)
    accepting = automaton.accepting
    rules = TokenRules()
    if may_repeat is not None:
        rules = TokenRules(no_repeats=True, may_repeat=may_repeat)
        table, accepting = without_repeats(table, accepting, may_repeat)
    expected = constrained_scores(rules_of(grammar, 0), emissions(grammar, 0), table, accepting, limit)
    found = search(grammar, 0, automaton, rules, limit)
    assert found.scores.tolist() == pytest.approx(expected.tolist(), abs=1e-10)
    for length in np.flatnonzero(expected > -math.inf).tolist():
        hypothesis = found.hypothesis(length)
        assert hypothesis.score == pytest.approx(expected[length], abs=1e-10)
        assert automaton.accepts(hypothesis.ids)
        assert may_repeat is None or not repeats(hypothesis.ids, may_repeat)


@pytest.mark.parametrize(("depth", "chain_lengths"), BATCHES)
def test_without_constraints_it_is_viterbi(depth: int, chain_lengths: list[int]) -> None:
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=8)
    best = grammar.mode(Search(special_tokens=SPECIAL, length_penalty=0.0))
    for index, hypothesis in enumerate(best):
        limit = grammar.support(index).max_length
        table = search(grammar, index, any_sentence(), TokenRules(special=SPECIAL), limit)
        length = int(table.scores.argmax())
        assert table.scores[length] == pytest.approx(hypothesis.score, abs=1e-10)
        found = table.hypothesis(length)
        assert (found.ids, found.nodes) == (hypothesis.ids, hypothesis.nodes)
        assert found.tree == hypothesis.tree


def test_special_tokens_stand_at_the_ends_only() -> None:
    grammar = random_grammar(SupportTree(5, 1), vocabulary=7)
    automaton = phrase_automaton([[4, 5]])
    table = search(grammar, 0, automaton, TokenRules(SPECIAL, no_repeats=True), 8)
    assert not (table.scores[:4] > -math.inf).any()  # bos, two words, eos
    for length in range(4, 9):
        ids = table.hypothesis(length).ids
        assert (ids[0], ids[-1]) == (SPECIAL.bos, SPECIAL.eos)
        assert not set(ids[1:-1]) & set(SPECIAL.ids)
        assert contains(ids, (4, 5))
    nothing = search(grammar, 0, phrase_automaton([[SPECIAL.pad]]), TokenRules(SPECIAL), 8)
    assert (nothing.scores == -math.inf).all()


@pytest.mark.parametrize("no_repeats", [False, True])
def test_padding_may_hold_anything(no_repeats: bool) -> None:
    grammar = random_grammar(SupportTree(6, 2), [3], vocabulary=6)
    clean, emit = rules_of(grammar, 0), emissions(grammar, 0)
    dirty = SentenceRules(
        np.where(clean.chain == -math.inf, math.nan, clean.chain),
        np.where(np.arange(6)[:, None] == 1, clean.prefix, math.nan),
        3,
    )
    noise = np.full_like(emit, math.nan)
    used = [1, *range(2, 6), 9]  # root, the middle block, and the last node
    noise[used] = emit[used]
    automaton, rules = phrase_automaton([[1, 2]]), TokenRules(no_repeats=no_repeats)
    expected = search(grammar, 0, automaton, rules, 6)
    top = TopTokens.of(noise, 6, automaton.tokens)
    found = best_continuations(dirty, token_candidates(top, automaton, rules, dirty.support), automaton, 6)
    assert found.scores.tolist() == expected.scores.tolist()
    for length in np.flatnonzero(found.scores > -math.inf).tolist():
        assert found.hypothesis(length) == expected.hypothesis(length)


def test_rules_in_single_precision() -> None:
    grammar = random_grammar(SupportTree(5, 2), vocabulary=6)
    automaton = phrase_automaton([[1, 2]])
    sentence = rules_of(grammar, 0, np.float32)
    top = TopTokens.of(emissions(grammar, 0).astype(np.float32), 6, automaton.tokens)
    candidates = token_candidates(top, automaton, TokenRules(), sentence.support)
    found = best_continuations(sentence, candidates, automaton, 8)
    exact = search(grammar, 0, automaton, TokenRules(), 8)
    assert found.scores.tolist() == pytest.approx(exact.scores.tolist(), abs=1e-5)
    assert found.hypothesis(7).ids == exact.hypothesis(7).ids


def test_what_is_missing_is_named() -> None:
    grammar = random_grammar(SupportTree(4, 1), vocabulary=9)
    sentence, emit = rules_of(grammar, 0), emissions(grammar, 0)
    automaton = phrase_automaton([[1, 2]])
    with pytest.raises(ValueError, match="top must have the 5 best tokens of each symbol, got 4"):
        token_candidates(
            TopTokens.of(emit, 4, (1, 2)), automaton, TokenRules(no_repeats=True), sentence.support
        )
    with pytest.raises(ValueError, match=r"top must know the scores of token 2, got those of \[1\]"):
        token_candidates(TopTokens.of(emit, 4, (1,)), automaton, TokenRules(), sentence.support)
    few = token_candidates(TopTokens.of(emit, 4, ()), any_sentence(), TokenRules(), sentence.support)
    with pytest.raises(ValueError, match="candidates must have at least 3 columns, got 1"):
        best_continuations(sentence, few, automaton, 5)
    with pytest.raises(ValueError, match=r"chain_length must be in 2 … 4, got 5"):
        SentenceRules(sentence.chain, sentence.prefix, 5)
    with pytest.raises(ValueError, match=r"prefix must have shape \(4, 0\), got \(4, 1\)"):
        SentenceRules(sentence.chain, np.zeros((4, 1)), 4)


@pytest.mark.parametrize("k", [1, 3, 7, FEW_COLUMNS, FEW_COLUMNS + 1])
def test_the_best_columns_are_those_of_a_stable_sort(k: int) -> None:
    scores = np.random.default_rng(0).integers(0, 9, size=(20, 50)).astype(np.float32)  # with ties
    scores[3] = scores[4, 5:] = scores[5, 1:] = -np.inf
    for table in (scores, scores[:, :5]):
        expected = np.argsort(-table, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(best_columns(table, k), expected)
