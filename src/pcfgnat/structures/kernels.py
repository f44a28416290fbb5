"""Kernels that all structures share."""

import numba


@numba.njit(nogil=True, cache=True)
def scatter_tokens(gradient, ids, lengths, out):
    """`out[b, i, ids[b, t]] += gradient[b, i, t]` over the true length of each sentence."""
    for b in range(gradient.shape[0]):
        for i in range(gradient.shape[1]):
            for t in range(lengths[b]):
                out[b, i, ids[b, t]] += gradient[b, i, t]
