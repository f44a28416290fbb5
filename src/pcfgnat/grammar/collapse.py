"""What is left of slots when repeats, then blanks, are dropped: no torch."""

import math
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.prefix_beam import PrefixBeam, aligned
from pcfgnat.grammar.search import Hypothesis


def collapsed(scores: Sequence[float], ids: Sequence[int], blank: int) -> Hypothesis:
    """Return the sentence that slots with these tokens stand for; its nodes are the first of each run."""
    runs = [list(run) for _, run in groupby(range(len(ids)), key=ids.__getitem__)]
    nodes = tuple(run[0] for run in runs if ids[run[0]] != blank)
    return Hypothesis(tuple(ids[slot] for slot in nodes), math.fsum(scores), nodes)


def beamed(search: PrefixBeam, log_probs: Float[np.ndarray, "T V"]) -> Hypothesis:
    """Return the best sentence that a beam finds; its nodes are those of its best alignment."""
    ids, score = search.best(log_probs)
    return Hypothesis(ids, score, aligned(log_probs, ids, search.blank))
