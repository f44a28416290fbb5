"""exp in a form that compilers vectorise along a row, as they cannot with the library's own."""

import math

import numba
import numpy as np

from pcfgnat.structures.rhpcfg.kernels.common import NEG_INF, jit, jit_sum

C2, C3, C4, C5, C6, C7, C8, C9 = (1.0 / math.factorial(k) for k in range(2, 10))
C10, C11, C12, C13, C14, C15, C16 = (1.0 / math.factorial(k) for k in range(10, 17))

_jit_no_nan = numba.njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})


@jit_sum
def smooth_exp(x):
    """exp of a float64 between -700 and 700, to a relative error below 1e-12.

    exp(x) = exp(x / 1024)^1024: a polynomial and ten squarings, no branch and no table.
    """
    y = x / 1024.0
    high = C9 + y * (C10 + y * (C11 + y * (C12 + y * (C13 + y * (C14 + y * (C15 + y * C16))))))
    p = 1.0 + y * (
        1.0 + y * (C2 + y * (C3 + y * (C4 + y * (C5 + y * (C6 + y * (C7 + y * (C8 + y * high)))))))
    )
    return power_256(p * p * p * p)


@jit_sum
def smooth_exp_single(x):
    """exp of a float64 between -88 and 88, to a relative error below 1e-7: all that a float32 can hold."""
    y = x / 256.0
    return power_256(
        1.0 + y * (1.0 + y * (C2 + y * (C3 + y * (C4 + y * (C5 + y * (C6 + y * (C7 + y * C8)))))))
    )


@jit_sum
def power_256(p):
    """p^256."""
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    return p * p


@jit
def rule_maximum(chain, a, j, stop):
    """Largest rule of main-chain node a with left child j; NaN if any is."""
    bad = 0
    for c in range(np.uint64(a + 1), np.uint64(stop)):
        bad += chain[a, j, c] != chain[a, j, c]
    return _maximum(chain, a, j, stop) if bad == 0 else chain.dtype.type(math.nan)


@_jit_no_nan
def _maximum(chain, a, j, stop):
    largest = chain[a, j, a + 1]
    for c in range(np.uint64(a + 1), np.uint64(stop)):
        largest = max(largest, chain[a, j, c])
    return largest


@jit_sum
def scale_rules(chain, a, j, stop, largest, cutoff, rules, i):
    """`rules[i, c] = exp(chain[a, j, c] - largest)` over right children c, 0 below the cutoff."""
    start, end = np.uint64(a + 1), np.uint64(stop)
    if largest == NEG_INF:
        for c in range(start, end):
            rules[i, c] = 0.0
    elif rules.itemsize == 4:
        for c in range(start, end):
            below = np.float64(chain[a, j, c] - largest)
            value = smooth_exp_single(cutoff if below <= cutoff else below)
            rules[i, c] = 0.0 if below <= cutoff else value
    else:
        for c in range(start, end):
            below = np.float64(chain[a, j, c] - largest)
            value = smooth_exp(cutoff if below <= cutoff else below)
            rules[i, c] = 0.0 if below <= cutoff else value
