"""Monotone alignments of slots and target, one by one, and what they cost: plain Python."""

from collections.abc import Iterator
from itertools import permutations

import torch
from torch import Tensor

# what a step takes: (tokens of the target, slots)
EMIT, BLANK, SKIP = (1, 1), (0, 1), (1, 0)
Path = list[tuple[int, int]]


def paths(tokens: int, slots: int) -> Iterator[Path]:
    """Yield every sequence of steps that takes all tokens and all slots."""
    if tokens == slots == 0:
        yield []
        return
    for step in (EMIT, BLANK, SKIP):
        if step[0] <= tokens and step[1] <= slots:
            for before in paths(tokens - step[0], slots - step[1]):
                yield [*before, step]


def path_cost(path: Path, of_tokens: Tensor, of_blanks: Tensor, skip_penalty: float) -> Tensor:
    """Add up the log-probabilities `[m, n]` and `[m]` along a path."""
    i = j = 0
    total = of_blanks.new_zeros(())
    for step in path:
        i, j = i + step[0], j + step[1]
        if step == EMIT:
            total = total - of_tokens[j - 1, i - 1]
        elif step == BLANK:
            total = total - of_blanks[j - 1]
        else:
            total = total - skip_penalty * of_tokens[max(j, 1) - 1, i - 1]
    return total


def cheapest_path(of_tokens: Tensor, of_blanks: Tensor, skip_penalty: float) -> Tensor:
    """The least cost of all paths, differentiable."""
    slots, tokens = of_tokens.shape
    return torch.stack(
        [path_cost(path, of_tokens, of_blanks, skip_penalty) for path in paths(tokens, slots)]
    ).min()


def cheapest_order(of_tokens: Tensor) -> tuple[int, ...]:
    """The token of each slot in the least costly of all permutations."""
    size = len(of_tokens)
    return min(
        permutations(range(size)),
        key=lambda order: -float(of_tokens[range(size), order].sum().detach()),
    )
