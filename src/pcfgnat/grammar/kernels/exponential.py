"""exp and log in a form that compilers vectorise along a row, as they cannot with the library's own.

Both take the binary exponent out of the number's bits and leave a short polynomial. None has a branch, so
arguments out of range give rubbish: callers clamp them first, or replace the result.
"""

import math

import numba
import numpy as np

from pcfgnat.grammar.compiled import cached
from pcfgnat.grammar.kernels.common import NEG_INF, jit

C2, C3, C4, C5, C6, C7 = (1.0 / math.factorial(k) for k in range(2, 8))
C8, C9, C10, C11, C12, C13 = (1.0 / math.factorial(k) for k in range(8, 14))
S2, S3, S4, S5, S6, S7 = (np.float32(1.0 / math.factorial(k)) for k in range(2, 8))
ATANH1, ATANH3, ATANH5, ATANH7, ATANH9 = (2.0 / k for k in (1, 3, 5, 7, 9))
ATANH11, ATANH13, ATANH15, ATANH17, ATANH19 = (2.0 / k for k in (11, 13, 15, 17, 19))
LOG2_E = 1.0 / math.log(2.0)
# ln 2 in two parts: few enough bits in the first that its product with an exponent is exact
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")
S_LOG2_E, S_LN2_HIGH, S_LN2_LOW = np.float32(LOG2_E), np.float32(0.693359375), np.float32(-2.12194440e-4)
# A number below 2^51 added to this one is rounded to a whole number, which its last bits then hold.
ROUND, S_ROUND = 1.5 * 2.0**52, np.float32(1.5 * 2.0**23)
S_ONE = np.float32(1.0)
EXPONENT_BIAS, S_EXPONENT_BIAS = np.int64(1023), np.int32(127)
EXPONENT_SHIFT, S_EXPONENT_SHIFT = np.int64(52), np.int32(23)
SQRT_HALF_BITS = np.float64(math.sqrt(0.5)).view(np.uint64)
ONE_BITS, EXPONENT_MASK = np.uint64(1023 << 52), np.uint64(0xFFF << 52)
TWO_52, TWO_52_BITS, SHIFT_RIGHT = 2.0**52, np.float64(2.0**52).view(np.uint64), np.uint64(52)

# Rows are best done in whole vectors of this many numbers: what is left over is not vectorised.
VECTOR = 8

# Products and sums may fuse, but not change places: adding ROUND and taking it away again must round. Without
# "numpy" a division has a branch for zero.
_jit_bits = cached(
    numba.njit(nogil=True, forceinline=True, fastmath={"contract", "nsz"}, error_model="numpy")
)
_jit_no_nan = cached(numba.njit(nogil=True, forceinline=True, fastmath={"nnan", "nsz"}))


@_jit_bits
def exp_double(x):
    """exp of a float64 between -708 and 709, to its last bit or two: 2^k · exp(r) with |r| ≤ ln 2 / 2."""
    shifted = x * LOG2_E + ROUND
    k = shifted - ROUND
    r = x - k * LN2_HIGH - k * LN2_LOW
    z = r * r
    y = z * z
    high = (C10 + r * C11) + z * (C12 + r * C13)
    high = (C6 + r * C7) + z * (C8 + r * C9) + y * high
    p = 1.0 + (r + z * ((C2 + r * C3) + z * (C4 + r * C5) + y * high))
    return p * np.int64((np.float64(shifted).view(np.int64) + EXPONENT_BIAS) << EXPONENT_SHIFT).view(
        np.float64
    )


@_jit_bits
def exp_rough(x):
    """exp of a float64 between -708 and 709, to a relative error below 1e-8: enough for float32 results."""
    shifted = x * LOG2_E + ROUND
    r = x - (shifted - ROUND) * (LN2_HIGH + LN2_LOW)
    z = r * r
    p = (1.0 + r) + z * ((C2 + r * C3) + z * ((C4 + r * C5) + z * (C6 + r * C7)))
    return p * np.int64((np.float64(shifted).view(np.int64) + EXPONENT_BIAS) << EXPONENT_SHIFT).view(
        np.float64
    )


@_jit_bits
def exp_single(x):
    """exp of a float32 between -87 and 88, to its last bit or two."""
    shifted = x * S_LOG2_E + S_ROUND
    k = shifted - S_ROUND
    r = x - k * S_LN2_HIGH - k * S_LN2_LOW
    z = r * r
    p = (S_ONE + r) + z * ((S2 + r * S3) + z * ((S4 + r * S5) + z * (S6 + r * S7)))
    return p * np.int32((np.float32(shifted).view(np.int32) + S_EXPONENT_BIAS) << S_EXPONENT_SHIFT).view(
        np.float32
    )


@_jit_bits
def split_log(x):
    """Split a positive normal number into `2^k · m` with m around 1; return k and `(m - 1) / (m + 1)`."""
    bits = np.float64(x).view(np.uint64)
    shifted = bits - SQRT_HALF_BITS + ONE_BITS
    k = np.uint64((shifted >> SHIFT_RIGHT) | TWO_52_BITS).view(np.float64) - (TWO_52 + 1023.0)
    m = np.uint64(bits - ((shifted & EXPONENT_MASK) - ONE_BITS)).view(np.float64)
    return k, (m - 1.0) / (m + 1.0)


@_jit_bits
def log_double(x):
    """log of a positive float64, no denormal, to its last bit or two: k · ln 2 + 2 · artanh(s)."""
    k, s = split_log(x)
    z = s * s
    high = ATANH11 + z * (ATANH13 + z * (ATANH15 + z * (ATANH17 + z * ATANH19)))
    p = s * (ATANH1 + z * (ATANH3 + z * (ATANH5 + z * (ATANH7 + z * (ATANH9 + z * high)))))
    return (p + k * LN2_LOW) + k * LN2_HIGH


@_jit_bits
def log_rough(x):
    """log of a positive float64, no denormal, to an absolute error below 1e-9."""
    k, s = split_log(x)
    z = s * s
    return s * (ATANH1 + z * (ATANH3 + z * (ATANH5 + z * (ATANH7 + z * ATANH9)))) + k * (LN2_HIGH + LN2_LOW)


@_jit_bits
def exp_for(x, single):
    """exp of a float64, rough if the result is for single precision."""
    return exp_rough(x) if single else exp_double(x)


@_jit_bits
def log_for(x, single):
    """log of a float64, rough if the result is for single precision."""
    return log_rough(x) if single else log_double(x)


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


@jit
def whole_vectors_before(start, stop):
    """Move `start` to the front until the row is a whole number of vectors, if there is room."""
    return max(stop - (stop - start + VECTOR - 1) // VECTOR * VECTOR, 0)


@jit
def scale_rules(chain, a, j, stop, largest, cutoff, rules):
    """`rules[j, c] = exp(chain[a, j, c] - largest)` over right children c, 0 below the cutoff.

    Some c ≤ a, whose rules are never used, are done too, so that the row is a whole number of vectors.
    """
    start, end = np.uint64(whole_vectors_before(a + 1, stop)), np.uint64(stop)
    if largest == NEG_INF:
        for c in range(start, end):
            rules[j, c] = 0.0
    elif rules.itemsize == 4:
        lowest = np.float32(cutoff)
        for c in range(start, end):
            below = chain[a, j, c] - largest
            value = exp_single(np.float32(below if below > lowest else lowest))
            rules[j, c] = np.float32(0.0) if below <= lowest else value
    else:
        for c in range(start, end):
            below = chain[a, j, c] - largest
            value = exp_double(below if below > cutoff else cutoff)
            rules[j, c] = 0.0 if below <= cutoff else value
