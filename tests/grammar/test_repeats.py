import math

import pytest

from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.repeats import RepeatsRemainError, best_without_repeats, repeated_words
from pcfgnat.grammar.tokens import TokenRules
from pcfgnat.structures import Hypothesis, SupportTree
from tests.support.constrained import contains, search, sentences
from tests.support.grammars import random_grammar

STARTS = frozenset({0, 1})  # 2 continues a word


def test_words_are_compared_from_their_first_token() -> None:
    assert repeated_words([9, 0, 2, 0, 2, 1], STARTS) == [(0, 2)]
    assert repeated_words([0, 2, 0, 2, 2], STARTS) == [(0, 2)]  # the second is longer
    assert repeated_words([0, 2, 2, 0, 2], STARTS) == []
    assert repeated_words([1, 1, 1], STARTS) == [(1,), (1,)]
    assert repeated_words([2, 2, 9, 9], STARTS) == []  # no word begins here
    assert repeated_words([], STARTS) == []


@pytest.mark.parametrize("required", [(), ((2, 1),)])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("depth", "size"), [(0, 6), (1, 4), (2, 3)])
def test_equals_enumeration(depth: int, size: int, seed: int, required: tuple[tuple[int, ...], ...]) -> None:
    grammar = random_grammar(SupportTree(size, depth), vocabulary=3, seed=seed, scale=2.0)

    def best(automaton: Automaton) -> Hypothesis | None:
        table = search(grammar, 0, automaton, TokenRules(), 6)
        values = [score / max(length, 1) for length, score in enumerate(table.scores.tolist())]
        length = max(range(len(values)), key=values.__getitem__)
        return table.hypothesis(length) if values[length] > -math.inf else None

    allowed = [
        score / len(ids)
        for score, ids, _ in sentences(grammar, 0, 3, 6)
        if not repeated_words(ids, STARTS) and all(contains(ids, phrase) for phrase in required)
    ]
    hypothesis = best_without_repeats(best, STARTS, required)
    assert hypothesis is not None
    assert not repeated_words(hypothesis.ids, STARTS)
    assert hypothesis.score / len(hypothesis.ids) == pytest.approx(max(allowed), abs=1e-10)


def test_says_when_there_is_none_or_no_end() -> None:
    assert best_without_repeats(lambda _: None, STARTS) is None
    twice = Hypothesis((0, 0), -1.0, (1, 2))
    with pytest.raises(ValueError, match=r"gone after 2 rounds, got \(0, 0\)"):
        best_without_repeats(lambda _: twice, STARTS, max_rounds=2)


def test_gives_up_before_an_automaton_grows_too_large() -> None:
    word = (0, *[2] * 80)
    long = Hypothesis(word * 3, -1.0, tuple(range(3 * len(word))))
    with pytest.raises(RepeatsRemainError, match="repeated words must need at most 256 states, got 325"):
        best_without_repeats(lambda _: long, STARTS)
