"""What is left of slots when repeats, then blanks, are dropped: plain lists, no torch."""

import math
from collections.abc import Sequence
from itertools import groupby

from pcfgnat.grammar.search import Hypothesis


def collapsed(scores: Sequence[float], ids: Sequence[int], blank: int) -> Hypothesis:
    """Return the sentence that slots with these tokens stand for; its nodes are the first of each run."""
    runs = [list(run) for _, run in groupby(range(len(ids)), key=ids.__getitem__)]
    nodes = tuple(run[0] for run in runs if ids[run[0]] != blank)
    return Hypothesis(tuple(ids[slot] for slot in nodes), math.fsum(scores), nodes)
