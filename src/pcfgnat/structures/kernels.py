"""Kernels that all structures share."""

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached


@cached(numba.njit(nogil=True))
def pick_tokens(emit, ids, lengths, out):
    """`out[b, i, t] = emit[b, i, ids[b, t]]` over the true length of each sentence, -inf beyond it."""
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            for t in range(lengths[b]):
                out[b, i, t] = emit[b, i, ids[b, t]]
            for t in range(lengths[b], out.shape[2]):
                out[b, i, t] = -np.inf


@cached(numba.njit(nogil=True))
def scatter_tokens(gradient, ids, lengths, out):
    """`out[b, i, ids[b, t]] += gradient[b, i, t]` over the true length of each sentence."""
    for b in range(gradient.shape[0]):
        for i in range(gradient.shape[1]):
            for t in range(lengths[b]):
                out[b, i, ids[b, t]] += gradient[b, i, t]
