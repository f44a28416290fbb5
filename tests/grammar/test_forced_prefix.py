import math
from collections.abc import Sequence

import numpy as np
import pytest

from pcfgnat.grammar.automaton import Automaton, any_sentence, phrase_automaton
from pcfgnat.grammar.forced_prefix import ForcedPrefix, PrefixProbability
from pcfgnat.grammar.reference import front_scores
from pcfgnat.grammar.tokens import TokenRules, forced_weights
from pcfgnat.structures import RHPCFG, SpecialTokens, SupportTree
from tests.support.constrained import (
    Found,
    assert_scored,
    best_by_length,
    contains,
    emissions,
    repeats,
    rules_of,
    search,
    sentences,
)
from tests.support.grammars import oracle, random_grammar
from tests.support.oracle import derivations, log_sum

# depth, chain lengths of a ragged batch, vocabulary: few enough for all sentences to be enumerated
BATCHES = [(0, [6, 2, 4], 3), (1, [4, 2, 3], 3), (2, [3, 2], 3), (3, [3], 2)]
SPECIAL = SpecialTokens(bos=0, eos=1, pad=2, unk=3)


def prefixes_of(found: Sequence[Found], length: int) -> list[tuple[int, ...]]:
    """A few different sentences' beginnings of a length, also of those that are no longer than that."""
    known = sorted({ids[:length] for _, ids, _ in found if len(ids) >= length})
    return known[:: max(len(known) // 4, 1)]


def forced(
    grammar: RHPCFG,
    index: int,
    prefix: Sequence[int],
    rules: TokenRules,
    automaton: Automaton | None = None,
    max_length: int = 10,
) -> ForcedPrefix:
    emit = emissions(grammar, index)
    state = ForcedPrefix.start(search(grammar, index, automaton or any_sentence(), rules, max_length))
    for token in prefix:
        weights = forced_weights(emit[:, token], token, rules.special, grammar.support(index))
        state = state.extended(token, weights)
    return state


def summed(grammar: RHPCFG, index: int, prefix: Sequence[int]) -> PrefixProbability:
    state = PrefixProbability.start(rules_of(grammar, index))
    for token in prefix:
        state = state.extended(emissions(grammar, index)[:, token])
    return state


@pytest.mark.parametrize("no_repeats", [False, True])
@pytest.mark.parametrize("required", [[], [[1, 0]]])
@pytest.mark.parametrize(("depth", "chain_lengths", "vocabulary"), BATCHES)
def test_best_continuations_equal_enumeration(
    depth: int, chain_lengths: list[int], vocabulary: int, required: list[list[int]], no_repeats: bool
) -> None:
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=vocabulary)
    automaton, rules = phrase_automaton(required), TokenRules(no_repeats=no_repeats)
    for index in range(len(chain_lengths)):
        limit = min(grammar.support(index).max_length, 6)
        found = list(sentences(grammar, index, vocabulary, limit))
        for given in range(limit + 1):
            for prefix in prefixes_of(found, given):

                def fulfilled(ids: tuple[int, ...], own: tuple[int, ...] = prefix) -> bool:
                    new = ids[max(len(own) - 1, 0) :]  # what is given may repeat itself
                    return (
                        ids[: len(own)] == own
                        and all(contains(ids, phrase) for phrase in required)
                        and not (no_repeats and repeats(new))
                    )

                state = forced(grammar, index, prefix, rules, automaton, limit)
                expected = best_by_length(found, fulfilled, limit)
                assert state.scores.tolist() == pytest.approx(expected, abs=1e-10)
                for length in np.flatnonzero(np.array(expected) > -math.inf).tolist():
                    hypothesis = state.hypothesis(length)
                    assert fulfilled(hypothesis.ids)
                    assert_scored(grammar, index, hypothesis, expected[length])


@pytest.mark.parametrize("given", [0, 1, 2, 5, 9])
@pytest.mark.parametrize(("depth", "size"), [(0, 14), (1, 9), (2, 5), (3, 4)])
def test_equals_the_front_pass(depth: int, size: int, given: int) -> None:
    """One pass over absolute positions, forced tokens first and best tokens behind, under max and sum."""
    grammar = random_grammar(SupportTree(size, depth), vocabulary=7, scale=3.0, seed=given)
    emit, rules, limit = emissions(grammar, 0), rules_of(grammar, 0), 12
    prefix = np.random.default_rng(given).integers(0, 7, given).tolist()
    free = np.repeat(emit.max(1)[:, None], limit - given, axis=1)
    expected = front_scores(rules, np.concatenate([emit[:, prefix], free], axis=1), np.max)
    expected[:given] = -math.inf  # shorter sentences do not hold the whole prefix
    state = forced(grammar, 0, prefix, TokenRules(), max_length=limit)
    assert state.scores.tolist() == pytest.approx(expected.tolist(), abs=1e-9)
    longest = rules.support.max_length
    anything = np.zeros((len(emit), longest - given))
    totals = front_scores(rules, np.concatenate([emit[:, prefix], anything], axis=1), np.logaddexp.reduce)
    assert summed(grammar, 0, prefix).log_prob == pytest.approx(log_sum(totals[given:].tolist()), abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize(
    ("depth", "chain_lengths", "vocabulary"), [(0, [6, 2, 4], 2), (1, [4, 2], 2), (2, [3], 2)]
)
def test_probabilities_equal_enumeration(
    depth: int, chain_lengths: list[int], vocabulary: int, scale: float
) -> None:
    tree = SupportTree(max(chain_lengths), depth)
    grammar = random_grammar(tree, chain_lengths, vocabulary=vocabulary, scale=scale)
    for index in range(len(chain_lengths)):
        found = list(sentences(grammar, index, vocabulary))
        chances = np.exp(emissions(grammar, index))
        for given in range(grammar.support(index).max_length + 1):
            for prefix in prefixes_of(found, given):
                begun = [(score, ids) for score, ids, _ in found if ids[:given] == prefix]
                total = log_sum([score for score, _ in begun])
                state = summed(grammar, index, prefix)
                assert state.log_prob == pytest.approx(total, abs=1e-9)
                ended = log_sum([score for score, ids in begun if len(ids) == given])
                assert state.ended == pytest.approx(ended, abs=1e-9)
                symbols = state.next_symbols()
                assert symbols.shape == (grammar.support(index).num_nodes,)
                for token in range(vocabulary):
                    following = [score for score, ids in begun if ids[given : given + 1] == (token,)]
                    expected = math.exp(log_sum(following) - total)
                    assert symbols @ chances[: len(symbols), token] == pytest.approx(expected, abs=1e-9)
                assert symbols.sum() + math.exp(ended - total) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("depth", "chain_lengths"), [(0, [7, 4]), (1, [5, 3]), (2, [4, 3]), (3, [3, 2])])
def test_the_next_symbol_equals_enumeration(depth: int, chain_lengths: list[int]) -> None:
    """Over all derivations, whose tokens behind the prefix add up to 1."""
    grammar = random_grammar(SupportTree(max(chain_lengths), depth), chain_lengths, vocabulary=5)
    for index in range(len(chain_lengths)):
        exact, prefix = oracle(grammar, index), [0, 3, 3, 1, 2]
        for given in range(len(prefix) + 1):
            weights = np.zeros(exact.tree.num_nodes)
            ended = 0.0
            for derivation in derivations(exact.tree):
                if len(derivation.nodes) >= given:
                    emitted = zip(derivation.nodes, prefix[:given], strict=False)
                    score = exact.structure_score(derivation) + sum(exact.emit[i][v] for i, v in emitted)
                    if len(derivation.nodes) == given:
                        ended += math.exp(score)
                    else:
                        weights[derivation.nodes[given]] += math.exp(score)
            state, total = summed(grammar, index, prefix[:given]), weights.sum() + ended
            assert math.exp(state.log_prob) == pytest.approx(total, abs=1e-12)
            expected = weights / total if total > 0 else weights
            assert state.next_symbols().tolist() == pytest.approx(expected.tolist(), abs=1e-9)


def test_conditionals_multiply_to_the_probability_of_a_prefix() -> None:
    grammar = random_grammar(SupportTree(20, 3), [20, 11], vocabulary=30)
    for index in range(2):
        chances = np.exp(emissions(grammar, index))
        state, product = PrefixProbability.start(rules_of(grammar, index)), 0.0
        assert state.log_prob == pytest.approx(0.0, abs=1e-12)
        for token in [3, 8, 8, 1, 29, 0]:
            symbols = state.next_symbols()
            product += math.log(symbols @ chances[: len(symbols), token])
            state = state.extended(np.log(chances[:, token]))
            assert state.log_prob == pytest.approx(product, abs=1e-9)


def test_an_impossible_prefix_is_no_error() -> None:
    grammar = random_grammar(SupportTree(3, 0), vocabulary=3)
    state, total = forced(grammar, 0, [0, 1, 2, 0], TokenRules()), summed(grammar, 0, [0, 1, 2, 0])
    assert (state.scores == -math.inf).all()
    assert total.log_prob == -math.inf
    assert not total.next_symbols().any()
    with pytest.raises(ValueError, match="no sentence of 4 tokens has this prefix of 4"):
        state.hypothesis(4)


def test_a_prefix_longer_than_the_table_has_no_scores() -> None:
    grammar = random_grammar(SupportTree(6, 0), vocabulary=3)
    state = forced(grammar, 0, [0, 1, 2, 0], TokenRules(), max_length=3)
    assert state.scores.tolist() == [-math.inf] * 4


def test_earlier_states_stay_as_they_were() -> None:
    grammar = random_grammar(SupportTree(5, 1), vocabulary=4)
    emit = emissions(grammar, 0)
    state = forced(grammar, 0, [0, 1], TokenRules())
    before = state.scores
    one, other = (state.extended(token, emit[:, token]) for token in (2, 3))
    assert state.scores.tolist() == before.tolist()
    assert one.hypothesis(6).ids[:3] == (0, 1, 2)
    assert other.hypothesis(6).ids[:3] == (0, 1, 3)
    # the better of all extensions is the best continuation
    every = [state.extended(token, emit[:, token]).scores[3:] for token in range(4)]
    assert np.max(every, axis=0).tolist() == pytest.approx(before[3:].tolist(), abs=1e-10)


def test_eos_ends_a_sentence() -> None:
    grammar = random_grammar(SupportTree(5, 1), vocabulary=7)
    rules = TokenRules(special=SPECIAL)
    open_end = forced(grammar, 0, [0, 5, 6], rules)
    assert int((open_end.scores > -math.inf).sum()) > 1
    whole = forced(grammar, 0, [0, 5, 6, 1], rules)
    assert np.flatnonzero(whole.scores > -math.inf).tolist() == [4]
    assert whole.hypothesis(4).ids == (0, 5, 6, 1)
    assert whole.scores[4] == pytest.approx(open_end.scores[4], abs=1e-12)
