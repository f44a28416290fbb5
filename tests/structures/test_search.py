"""How many tokens a decoded sentence may have, and which lengths are picked."""

import math
from collections.abc import Sequence

import pytest

from pcfgnat.structures import Search
from pcfgnat.structures.lengths import choose_lengths, pick_length, rank_lengths


@pytest.mark.parametrize(
    ("max_length", "expected"),
    [(None, [9, 4, 6]), (5, [5, 4, 5]), (100, [9, 4, 6]), ((3, 7, 6), [3, 4, 6]), ((9, 4, 1), [9, 4, 1])],
)
def test_limits_are_those_asked_for_and_possible(
    max_length: int | tuple[int, ...] | None, expected: list[int]
) -> None:
    assert Search(max_length=max_length).limits([9, 4, 6]) == expected


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="max_length must have one limit for each of 3 sentences, got 2"):
        Search(max_length=(1, 2)).limits([9, 4, 6])
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
