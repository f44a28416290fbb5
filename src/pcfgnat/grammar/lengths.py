"""Choosing among lengths, when the best structure of every one is known: plain numbers, no torch."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Protocol, runtime_checkable

NEG_INF = float("-inf")

# from scores and their lengths to indices of those that are wanted; -1: there is none
LengthChooser = Callable[[Sequence[float], Sequence[int]], list[int]]


@runtime_checkable
class Traceable(Protocol):
    """Best structures of every length."""

    def nodes(self, lengths: list[int]) -> list[tuple[int, ...]]:
        """Return the nodes of the best structure of the given length of each sentence."""


def pick_length(scores: Sequence[float], lengths: Sequence[int], length_penalty: float) -> int:
    """Index of the length whose `score / L^β` is best; the shorter one on a tie, -1 if all are impossible."""
    powers = _powers(lengths if isinstance(lengths, range) else tuple(lengths), length_penalty)
    values = [score / power for score, power in zip(scores, powers, strict=True)]
    best = max(range(len(values)), key=values.__getitem__, default=-1)  # the first of equal ones
    return best if best >= 0 and scores[best] > NEG_INF else -1


@lru_cache(maxsize=256)
def _powers(lengths: range | tuple[int, ...], length_penalty: float) -> list[float]:
    return [length**length_penalty for length in lengths]


def rank_lengths(scores: Sequence[float], lengths: Sequence[int], length_penalty: float) -> list[int]:
    """Indices of all possible lengths by `score / L^β`, best first, the shorter one before the longer."""
    values = [score / length**length_penalty for score, length in zip(scores, lengths, strict=True)]
    possible = [index for index, score in enumerate(scores) if score > NEG_INF]
    return sorted(possible, key=lambda index: -values[index])


def one_by_penalty(length_penalties: Sequence[float]) -> LengthChooser:
    """Choose the best length under each penalty."""
    return lambda scores, lengths: [pick_length(scores, lengths, beta) for beta in length_penalties]


def best_ranked(length_penalty: float, results: int) -> LengthChooser:
    """Choose so many of the best lengths."""
    return lambda scores, lengths: rank_lengths(scores, lengths, length_penalty)[:results] or [-1]


def choose_lengths(
    scores: Sequence[Sequence[float]], limits: Sequence[int], choose: LengthChooser
) -> list[list[int]]:
    """Return the lengths that `choose` picks for each sentence, whose `scores` are by length from 0 on."""
    chosen = []
    for sentence, (row, limit) in enumerate(zip(scores, limits, strict=True)):
        lengths = range(1, limit + 1)
        indices = choose(row[1 : limit + 1], lengths)
        if min(indices, default=0) < 0:
            raise ValueError(f"sentence {sentence} has no derivation of at most {limit} tokens")
        chosen.append([lengths[index] for index in indices])
    return chosen


def trace(table: Traceable, chosen: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
    """Return the nodes of the best structures of the chosen lengths of each sentence."""
    columns = zip_longest(*chosen, fillvalue=2)  # one trace of the whole batch for each column
    traced = [table.nodes(list(lengths)) for lengths in columns]
    return [[nodes[index] for nodes in traced[: len(lengths)]] for index, lengths in enumerate(chosen)]


def best_with_tokens(
    scores: Sequence[Sequence[float]],
    paths: Sequence[Sequence[tuple[int, ...]]],
    token_scores: Sequence[Sequence[float]],
) -> list[list[float]]:
    """Add the tokens of each sentence's best path of every length from 1 on to that path's score.

    `scores` are by length from 0 on; `token_scores` by node.
    """
    joint = []
    for row, own, tokens in zip(scores, paths, token_scores, strict=True):
        with_tokens = [
            score + sum(tokens[node] for node in path) if score > NEG_INF else score
            for score, path in zip(row[1:], own, strict=True)
        ]
        joint.append([row[0], *with_tokens])
    return joint
