"""Which sentences of a batch are run together: padding costs work, and so does every run of the network."""

from collections.abc import Sequence

RUN_PRODUCTS = 60e6  # multiplications that take as long as what a run costs however small it is (measured)


def tokens_of_a_run(weights: int, nodes: int) -> float:
    """Return how many source tokens cost as much as starting the network once; never less than one.

    weights: of the network; nodes: of the canvas for each source token. Large networks make tokens dear.
    """
    return max(RUN_PRODUCTS / (weights * nodes), 1.0)


def alike(lengths: Sequence[int], run: float) -> list[list[int]]:
    """Put indices of similar lengths together, the shortest first, so that the whole costs least.

    A group costs `run` and, of each of its sentences, as many tokens as the longest has. Groups are
    neighbours in the order of length, so the best cuts are found from the shortest on.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    ends = [end for end in range(1, len(order) + 1) if end == len(order) or _differ(lengths, order, end)]
    best: dict[int, tuple[float, int]] = {
        0: (0.0, 0)
    }  # cost of the first few, and where their last group begins
    for end in ends:
        longest = lengths[order[end - 1]]
        best[end] = min((cost + run + (end - start) * longest, start) for start, (cost, _) in best.items())
    groups: list[list[int]] = []
    end = len(order)
    while end:
        start = best[end][1]
        groups.append(order[start:end])
        end = start
    return groups[::-1]


def _differ(lengths: Sequence[int], order: Sequence[int], end: int) -> bool:
    return lengths[order[end - 1]] != lengths[order[end]]
