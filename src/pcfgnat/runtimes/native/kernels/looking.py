"""More of what nodes emit: several best tokens of each, and the log-probabilities of some tokens."""

import numpy as np

from pcfgnat.runtimes.native.kernels import model as m
from pcfgnat.runtimes.native.kernels.memory import long_at, put_single, used
from pcfgnat.runtimes.native.kernels.output import LOW, SPECIAL, pack_types, panels_room, score_tokens
from pcfgnat.runtimes.native.kernels.products import COLUMNS, LANES, PANEL, at, jit, linear
from pcfgnat.runtimes.native.kernels.rows import CODE

_best = CODE.best


@jit
def columns_of(ops, model, wanted, bytes_, scales, special):
    """Return log-probabilities of some tokens for each row, with whole panels of columns.

    special: what `emit` has written for each row, its normaliser among it
    """
    rows, width, count = len(scales), bytes_.shape[1], len(wanted)
    out = np.empty((rows, (count + PANEL - 1) // PANEL * PANEL), np.float32)
    work = np.empty(panels_room(width, count), np.uint8)
    score_tokens(
        ops, at(wanted), count, width, model[m.TOKENS], model[m.ENTRIES], rows, at(bytes_), at(scales),
        at(special) + 4 * SPECIAL, special.strides[0], at(out), at(work),
    )  # fmt: skip
    used(wanted, bytes_, scales, special, work)
    return out


@jit
def leading_tokens(ops, model, bytes_, scales, types, found):
    """Write the best plain tokens of each row, best first; as many as `found` has columns.

    types: the tokens that are looked at, of which there are at least so many; all, if there are none
    """
    rows, width = bytes_.shape
    weight, packed = model[m.ALL_TOKENS], np.empty(panels_room(width, len(types)), np.uint8)
    if len(types) > 0:
        weight = at(packed)
        pack_types(ops, at(types), len(types), width, model[m.TOKENS], model[m.ENTRIES], weight)
    columns = long_at(weight + COLUMNS)
    scores = np.empty((rows, columns), np.float32)
    linear(ops, rows, at(bytes_), width, at(scales), 4, weight, at(scores), 4 * columns)
    for row in range(rows):
        own = at(scores) + 4 * columns * row
        for place in range(found.shape[1]):
            best = _best(own, SPECIAL, columns // LANES)
            found[row, place] = types[best - SPECIAL] if len(types) > 0 else best
            put_single(own + 4 * best, LOW)
    used(bytes_, scales, types, packed, scores)
