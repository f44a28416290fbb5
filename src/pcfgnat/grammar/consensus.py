"""Ranking candidate translations by consensus: BLEU against the n-grams that a distribution expects.

Instead of a reference sentence there are the expected number of every n-gram and the expected length
(DeNero et al. 2009). Arrays and lists only: whoever runs the model computes the counts.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class WindowColumns:
    """A row of tokens with every window of some sentences in it, and where each sentence's windows start."""

    tokens: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]


def window_columns(sentences: Sequence[Sequence[int]], n: int) -> WindowColumns:
    """Lay out all windows of n tokens in one row; what several sentences share stands there once."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    tokens: list[int] = []
    known: dict[tuple[int, ...], int] = {}
    starts = []
    for sentence in sentences:
        windows = ngrams(sentence, n)
        for window in windows:
            if window not in known:
                # continue the row if it ends with this window's beginning
                shared = n - 1 if n > 1 and tuple(tokens[1 - n :]) == window[:-1] else 0
                known[window] = len(tokens) - shared
                tokens += window[shared:]
        starts.append(tuple(known[window] for window in windows))
    return WindowColumns(tuple(tokens), tuple(starts))


def ngrams(sentence: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """Return the windows of n tokens of a sentence, in order."""
    return [tuple(sentence[i : i + n]) for i in range(len(sentence) - n + 1)]


def consensus_score(
    sentence: Sequence[int], expected: Sequence[Float[np.ndarray, "_"]], expected_length: float
) -> float:
    """Return BLEU, between 0 and 1, of a sentence against expected n-grams.

    `expected[n - 1][i]` is the expected number of occurrences of the window of n tokens that starts at i;
    `expected_length` the expected number of tokens, both without bos and eos. An n-gram counts at most as
    often as it is expected. Orders longer than the sentence are left out; an empty sentence scores 0.
    """
    logs = []
    for n, counts in enumerate(expected, start=1):
        own = ngrams(sentence, n)
        if len(counts) != len(own):
            raise ValueError(
                f"{len(sentence)} tokens have {len(own)} windows of {n}, got {len(counts)} counts"
            )
        if own:
            occurring = Counter(own)
            wanted = dict(zip(own, counts.tolist(), strict=True))
            matched = math.fsum(min(number, wanted[window]) for window, number in occurring.items())
            logs.append(math.log(matched / len(own)) if matched > 0 else -math.inf)
    if not logs:
        return 0.0
    brevity = min(0.0, 1 - expected_length / len(sentence))
    return math.exp(math.fsum(logs) / len(logs) + brevity)


def rank_by_consensus(
    candidates: Sequence[Sequence[int]],
    expected: Sequence[Sequence[Float[np.ndarray, "_"]]],
    expected_length: float,
) -> list[tuple[int, float]]:
    """Return index and score of every candidate, best first; the earlier one on a tie.

    `expected[c][n - 1]` are the counts of candidate c's windows of n tokens.
    """
    scores = [
        consensus_score(candidate, counts, expected_length)
        for candidate, counts in zip(candidates, expected, strict=True)
    ]
    return sorted(enumerate(scores), key=lambda pair: (-pair[1], pair[0]))
