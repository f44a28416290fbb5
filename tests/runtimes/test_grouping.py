import random
from itertools import product

import pytest

from pcfgnat.runtimes.onnx.grouping import alike, tokens_of_a_run


def cost(groups: list[list[int]], lengths: list[int], run: float) -> float:
    return sum(run + len(group) * max(lengths[index] for index in group) for group in groups)


def cheapest(lengths: list[int], run: float) -> float:
    """Try all cuts of the sorted sentences."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    found = []
    for cuts in product([False, True], repeat=len(order) - 1):
        groups = [[order[0]]]
        for index, cut in zip(order[1:], cuts, strict=True):
            if cut:
                groups.append([])
            groups[-1].append(index)
        found.append(cost(groups, lengths, run))
    return min(found)


@pytest.mark.parametrize("seed", range(20))
def test_the_groups_cost_least(seed: int) -> None:
    chance = random.Random(seed)
    lengths = [chance.randint(1, 12) for _ in range(chance.randint(1, 9))]
    run = chance.choice([0.5, 2.0, 9.0, 50.0])
    groups = alike(lengths, run)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert cost(groups, lengths, run) == pytest.approx(cheapest(lengths, run))


def test_a_small_network_runs_once_and_a_large_one_pads_nothing() -> None:
    lengths = [9, 3, 9, 4]
    assert alike(lengths, 100.0) == [[1, 3, 0, 2]]
    assert alike(lengths, 0.1) == [[1], [3], [0, 2]]
    assert alike([], 1.0) == []


def test_tokens_are_dear_in_large_networks() -> None:
    small, large = tokens_of_a_run(2_000_000, 2), tokens_of_a_run(44_000_000, 8)
    assert small == pytest.approx(15.0)
    assert large == 1.0


def test_a_thousand_sentences_are_all_grouped() -> None:
    lengths = [index % 200 for index in range(1000)]
    assert sum(map(len, alike(lengths, 5.0))) == 1000
