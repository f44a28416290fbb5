"""How many tokens a decoded sentence may have, and which lengths are picked."""

import math
from collections.abc import Sequence

import pytest

from pcfgnat.grammar.lengths import (
    best_ranked,
    best_with_tokens,
    choose_lengths,
    pick_length,
    rank_lengths,
    trace,
)
from pcfgnat.structures import Hypothesis, Search


@pytest.mark.parametrize(
    ("max_length", "expected"),
    [(None, [9, 4, 6]), (5, [5, 4, 5]), (100, [9, 4, 6]), ((3, 7, 6), [3, 4, 6]), ((9, 4, 1), [9, 4, 1])],
)
def test_limits_are_those_asked_for_and_possible(
    max_length: int | tuple[int, ...] | None, expected: list[int]
) -> None:
    assert Search(max_length=max_length).limits([9, 4, 6]) == expected


def test_without_further_ado_lengths_are_compared_by_score_per_token() -> None:
    search = Search()
    assert (search.strategy, search.length_penalty, search.max_length) == ("viterbi", 1.0, None)
    assert (search.beam_size, search.results) == (5, 1)


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="max_length must have one limit for each of 3 sentences, got 2"):
        Search(max_length=(1, 2)).limits([9, 4, 6])
    with pytest.raises(ValueError, match="max_length must have one limit for each of 3 sentences, got 4"):
        Search(max_length=(1, 2, 3, 4)).limits([9, 4, 6])
    with pytest.raises(ValueError, match="max_length must be at least 1, got 0"):
        Search(max_length=0)
    with pytest.raises(ValueError, match=r"max_length must be at least 1, got \(3, 0\)"):
        Search(max_length=(3, 0))
    for name in ("beam_size", "results"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            Search(**{name: 0})  # type: ignore[arg-type]


def test_an_empty_batch_has_no_limits() -> None:
    assert Search(max_length=()).limits([]) == Search(max_length=4).limits([]) == []


@pytest.mark.parametrize(
    ("length_penalty", "expected"),
    [(0.0, [0, 1, 3]), (1.0, [1, 3, 0]), (5.0, [3, 1, 0])],
)
def test_lengths_are_ranked_by_normalised_score(length_penalty: float, expected: list[int]) -> None:
    scores, lengths = [-3.0, -3.5, -math.inf, -8.0], [2, 3, 4, 6]
    assert rank_lengths(scores, lengths, length_penalty) == expected
    assert pick_length(scores, lengths, length_penalty) == expected[0]


def test_the_shorter_one_comes_first_on_a_tie() -> None:
    assert rank_lengths([-2.0, -3.0, -4.0], [2, 3, 4], 1.0) == [0, 1, 2]
    assert rank_lengths([-2.0, -2.0, -1.0], [2, 3, 4], 0.0) == [2, 0, 1]


def test_nothing_possible_is_no_length() -> None:
    assert rank_lengths([-math.inf, -math.inf], [2, 3], 1.0) == []
    assert pick_length([-math.inf], [2], 1.0) == -1


def test_lengths_are_chosen_below_each_sentence_s_limit() -> None:
    scores = [[0.0, -9.0, -5.0, -4.0, -3.0], [0.0, -9.0, -5.0, -4.0, -3.0]]  # by length, from 0 on
    seen = []

    def choose(scores: Sequence[float], lengths: Sequence[int]) -> list[int]:
        seen.append((list(scores), list(lengths)))
        return rank_lengths(scores, lengths, 0.0)[:2]

    assert choose_lengths(scores, [4, 2], choose) == [[4, 3], [2, 1]]
    assert seen == [([-9.0, -5.0, -4.0, -3.0], [1, 2, 3, 4]), ([-9.0, -5.0], [1, 2])]


def test_a_sentence_without_a_derivation_is_named() -> None:
    scores = [[0.0, -1.0, -2.0], [-math.inf, -math.inf, -2.0]]
    with pytest.raises(ValueError, match="sentence 1 has no derivation of at most 1 tokens"):
        choose_lengths(scores, [2, 1], lambda row, lengths: [pick_length(row, lengths, 1.0)])
    with pytest.raises(ValueError, match="sentence 1 has no derivation of at most 1 tokens"):
        choose_lengths(scores, [2, 1], best_ranked(1.0, results=3))


def test_scores_and_lengths_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        rank_lengths([-1.0, -2.0], [1], 1.0)


class Named:
    """A table whose best structure of a length is named after sentence and length."""

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        return list(enumerate(lengths))


def test_every_chosen_length_is_traced() -> None:
    assert trace(Named(), [[4], [3, 2, 5], []]) == [[(0, 4)], [(1, 3), (1, 2), (1, 5)], []]


def test_tokens_are_added_to_the_paths_that_exist() -> None:
    scores = [[-math.inf, -1.0, -math.inf, -3.0]]  # by length, from 0 on
    paths: list[list[tuple[int, ...]]] = [[(2,), (), (0, 1, 2)]]
    found = best_with_tokens(scores, paths, [[-0.5, -0.25, -4.0]])
    assert found == [[-math.inf, -5.0, -math.inf, -7.75]]


@pytest.mark.parametrize(("length", "penalty", "expected"), [(0, 2.0, -6.0), (1, 2.0, -6.0), (2, 1.0, -3.0)])
def test_scores_are_normalised_by_length(length: int, penalty: float, expected: float) -> None:
    hypothesis = Hypothesis((7,) * length, -6.0, tuple(range(length)))
    assert hypothesis.normalised_score(penalty) == expected
