import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.grammar.automaton import DEAD, Automaton, any_sentence, phrase_automaton
from tests.support.constrained import contains

PHRASES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), max_size=3)


@given(required=PHRASES, forbidden=PHRASES, sentence=st.lists(st.integers(0, 4), max_size=12))
def test_accepts_what_has_all_required_and_no_forbidden_phrase(
    required: list[list[int]], forbidden: list[list[int]], sentence: list[int]
) -> None:
    automaton = phrase_automaton(required, forbidden, max_states=1000)
    expected = all(contains(sentence, phrase) for phrase in required)
    expected &= not any(contains(sentence, phrase) for phrase in forbidden)
    assert automaton.accepts(sentence) == expected


def test_the_number_of_states_is_limited() -> None:
    two = [[1, 2, 3], [4, 5, 6]]
    assert len(phrase_automaton(two).table) <= 28
    assert len(phrase_automaton([]).table) == 1
    assert len(phrase_automaton([[1, 2, 3]]).table) == 4  # one absorbing end
    with pytest.raises(ValueError, match="2 phrases must need at most 5 states, got more"):
        phrase_automaton(two, max_states=5)


def test_a_dead_end_stays_one() -> None:
    automaton = phrase_automaton([], [[7]])
    assert automaton.step(0, 7) == DEAD
    assert automaton.step(DEAD, 1) == DEAD
    assert not automaton.accepts([1, 7, 1])
    assert any_sentence().accepts([1, 7, 1])


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="at least one token, got an empty one"):
        phrase_automaton([[]])
    yes = np.ones(1, dtype=bool)
    with pytest.raises(ValueError, match=r"tokens must be different, got \(1, 1\)"):
        Automaton((1, 1), np.zeros((1, 3), dtype=np.int64), yes)
    with pytest.raises(ValueError, match=r"table must have shape \(1, 2\), got \(1, 1\)"):
        Automaton((1,), np.zeros((1, 1), dtype=np.int64), yes)
    with pytest.raises(ValueError, match=r"states in 0 … 0 or -1"):
        Automaton((1,), np.array([[0, 1]]), yes)
