"""Compiled loops over parallel text."""

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached


@cached(numba.njit(nogil=True))
def find(candidates, first, last, token):
    """Where a token stands among sorted candidates `first … last - 1`, or would."""
    while first < last:
        middle = (first + last) // 2
        if candidates[middle] < token:
            first = middle + 1
        else:
            last = middle
    return first


@cached(numba.njit(nogil=True))
def add_expected(sources, targets, lengths, offsets, candidates, chances, counts):
    """Add to `counts` how often each source type is expected to have caused each of its candidates.

    A step of IBM model 1: `sources` and `targets` hold the sentences one after the other, `lengths [n, 2]`
    how long they are; `chances` and `counts` belong to `candidates`, whose rows begin at `offsets`.
    """
    source, target = 0, 0
    for pair in range(len(lengths)):
        source_end, target_end = source + lengths[pair, 0], target + lengths[pair, 1]
        places = np.empty(lengths[pair, 0], dtype=np.int64)
        for t in range(target, target_end):
            total = 0.0
            for s in range(source, source_end):
                first, last = offsets[sources[s]], offsets[sources[s] + 1]
                place = find(candidates, first, last, targets[t])
                places[s - source] = -1
                if place < last and candidates[place] == targets[t]:
                    places[s - source] = place
                    total += chances[place]
            if total > 0.0:
                for s in range(len(places)):
                    if places[s] >= 0:
                        counts[places[s]] += chances[places[s]] / total
        source, target = source_end, target_end
