"""Every path and every alignment, one by one, in plain Python; shares no code with the package."""

import math
from collections.abc import Iterator
from itertools import combinations, pairwise, product
from typing import Any

# score and, for each node, the target position that it emits (-1: unused)
Structure = tuple[float, tuple[int, ...]]


def paths(vertices: int) -> Iterator[tuple[int, ...]]:
    """All paths from the first vertex to the last."""
    for count in range(vertices - 1):
        for between in combinations(range(1, vertices - 1), count):
            yield (0, *between, vertices - 1)


class DAGOracle:
    """One sentence's lattice, as nested lists of log-probabilities without padding."""

    def __init__(self, transitions: Any, emit: Any) -> None:
        self.transitions, self.emit = transitions, emit

    def path_score(self, path: tuple[int, ...]) -> float:
        return sum(float(self.transitions[i][j]) for i, j in pairwise(path))

    def score(self, path: tuple[int, ...], tokens: list[int]) -> float:
        emitted = sum(float(self.emit[vertex][token]) for vertex, token in zip(path, tokens, strict=True))
        return self.path_score(path) + emitted

    def of(self, tokens: list[int]) -> list[Structure]:
        """All paths of a target of non-zero probability, best first."""
        found = []
        for path in paths(len(self.emit)):
            if len(path) == len(tokens):
                position = tuple(path.index(v) if v in path else -1 for v in range(len(self.emit)))
                found.append((self.score(path, tokens), position))
        return ranked(found)

    def best(
        self, allowed: list[list[int]], penalty: float, limit: int, joint: bool
    ) -> tuple[float, tuple[int, ...]]:
        """Best score and path when vertex v emits its best allowed token, over all lengths up to a limit."""
        token_scores = [max(row[token] for token in ids) for row, ids in zip(self.emit, allowed, strict=True)]
        candidates = []
        for length in range(2, limit + 1):
            found = []
            for path in paths(len(self.emit)):
                if len(path) == length and self.path_score(path) > -math.inf:
                    together = self.path_score(path) + sum(token_scores[v] for v in path)
                    found.append((together if joint else self.path_score(path), together, path))
            if found:
                _, together, path = max(found)
                candidates.append((together / length**penalty, together, path))
        _, score, path = max(candidates)
        return score, path


class CTCOracle:
    """One sentence's canvas, as nested lists of log-probabilities without padding."""

    def __init__(self, log_probs: Any, blank: int) -> None:
        self.log_probs, self.blank = log_probs, blank

    def alignments(self) -> Iterator[tuple[float, tuple[int, ...], tuple[int, ...]]]:
        """Yield score, sentence, and the position that each slot emits, for everything the slots may emit."""
        vocabulary = len(self.log_probs[0])
        for emitted in product(range(vocabulary), repeat=len(self.log_probs)):
            score = sum(float(row[token]) for row, token in zip(self.log_probs, emitted, strict=True))
            sentence: list[int] = []
            position = []
            previous = self.blank
            for token in emitted:
                if token not in (self.blank, previous):
                    sentence.append(token)
                position.append(-1 if token == self.blank else len(sentence) - 1)
                previous = token
            yield score, tuple(sentence), tuple(position)

    def of(self, tokens: list[int]) -> list[Structure]:
        """All alignments of a target of non-zero probability, best first."""
        found = [(score, position) for score, ids, position in self.alignments() if list(ids) == tokens]
        return ranked(found)

    def sentences(self) -> dict[tuple[int, ...], float]:
        """Log-probability of every sentence."""
        chances: dict[tuple[int, ...], float] = {}
        for score, ids, _ in self.alignments():
            chances[ids] = chances.get(ids, 0.0) + math.exp(score)
        return {ids: math.log(chance) for ids, chance in chances.items() if chance > 0}


def ranked(found: list[Structure]) -> list[Structure]:
    """What has non-zero probability, best first."""
    return sorted([pair for pair in found if pair[0] > -math.inf], key=lambda pair: (-pair[0], pair[1]))


def prefix_beam(
    log_probs: Any, blank: int, tokens: list[int], beam_size: int
) -> tuple[tuple[int, ...], float]:
    """Prefix beam search over the whole vocabulary: best prefix and its log-probability."""
    beam: dict[tuple[int, ...], list[float]] = {(): [1.0, 0.0]}  # ending in a blank, on the last token
    for row in log_probs:
        following: dict[tuple[int, ...], list[float]] = {}
        for prefix, (in_blank, on_token) in beam.items():
            ends = following.setdefault(prefix, [0.0, 0.0])
            ends[0] += (in_blank + on_token) * math.exp(row[blank])
            if prefix:
                ends[1] += on_token * math.exp(row[prefix[-1]])
            for token in tokens:
                origin = in_blank if prefix[-1:] == (token,) else in_blank + on_token
                following.setdefault((*prefix, token), [0.0, 0.0])[1] += origin * math.exp(row[token])
        kept = sorted(following, key=lambda prefix: -sum(following[prefix]))[:beam_size]
        beam = {prefix: following[prefix] for prefix in kept}
    best = max(beam, key=lambda prefix: sum(beam[prefix]))
    return best, math.log(sum(beam[best]))
