"""What happens to rows between products: norms, activations, softmax, and the way into 8 bits."""

import math

import numpy as np

from pcfgnat.grammar.kernels.exponential import exp_single
from pcfgnat.runtimes.native.kernels.products import MIDDLE, jit

EPSILON = np.float32(1e-5)
LARGEST = np.float32(127)
HALF, ONE = np.float32(0.5), np.float32(1.0)
ROUNDED = np.float32(MIDDLE + 0.5)  # what is cut off afterwards is rounded
TINY = np.float32(1e-30)  # a row of zeros stays one
LOWEST = np.float32(-87.0)  # of exponents
# erf to 2e-7: Abramowitz and Stegun, 7.1.26
ERF_P, ROOT_HALF = np.float32(0.3275911), np.float32(math.sqrt(0.5))
E1, E2, E3 = np.float32(0.254829592), np.float32(-0.284496736), np.float32(1.421413741)
E4, E5 = np.float32(-1.453152027), np.float32(1.061405429)

# Maxima of floats are not vectorised, those of integers are: bits of floats have the order of integers.
WITHOUT_SIGN, SIGN_SHIFT = np.int32(0x7FFFFFFF), np.int32(31)


@jit
def largest_size(x, row):
    """Return the greatest absolute value of a row."""
    most = np.int32(0)
    for i in range(x.shape[1]):
        most = max(most, np.float32(x[row, i]).view(np.int32) & WITHOUT_SIGN)
    return np.int32(most).view(np.float32)


@jit
def ordered(bits):
    """Turn bits of a float into an integer of the same order, and back."""
    return bits ^ ((bits >> SIGN_SHIFT) & WITHOUT_SIGN)


@jit
def largest_of(x, row, first, last):
    """Return the greatest number of a part of a row."""
    most = ordered(np.float32(x[row, first]).view(np.int32))
    for i in range(first, last):
        most = max(most, ordered(np.float32(x[row, i]).view(np.int32)))
    return np.int32(ordered(np.int32(most))).view(np.float32)


@jit
def quantise(x, row, out, scales):
    """Turn a row into bytes around 128, and keep its scale."""
    most = max(largest_size(x, row), TINY)
    factor = LARGEST / most
    scales[row] = most / LARGEST
    for i in range(x.shape[1]):
        out[row, i] = np.uint8(np.int32(x[row, i] * factor + ROUNDED))


@jit
def normalise(x, row, norms, index, out):
    """Write the norm of a row to the same row of another matrix."""
    width = x.shape[1]
    total = np.float32(0.0)
    for i in range(width):
        total += x[row, i]
    mean = total / np.float32(width)
    squares = np.float32(0.0)
    for i in range(width):
        squares += (x[row, i] - mean) * (x[row, i] - mean)
    factor = ONE / np.sqrt(squares / np.float32(width) + EPSILON)
    for i in range(width):
        out[row, i] = (x[row, i] - mean) * factor * norms[index, 0, i] + norms[index, 1, i]


@jit
def gelu(x, row):
    """Replace a row by x · Φ(x)."""
    for i in range(x.shape[1]):
        value = x[row, i]
        size = abs(value) * ROOT_HALF
        k = ONE / (ONE + ERF_P * size)
        tail = k * (E1 + k * (E2 + k * (E3 + k * (E4 + k * E5))))
        tail *= exp_single(max(-size * size, LOWEST))
        x[row, i] = value * (HALF * tail if value < 0 else ONE - HALF * tail)


@jit
def relu(x, row):
    """Replace a row by what is positive of it."""
    for i in range(x.shape[1]):
        x[row, i] = max(x[row, i], np.float32(0.0))


@jit
def softmax(x, row, first, last, factor):
    """Replace a part of a row by its softmax, after multiplying it by a factor that is positive."""
    most = largest_of(x, row, first, last)
    total = np.float32(0.0)
    for i in range(first, last):
        value = exp_single(max((x[row, i] - most) * factor, LOWEST))
        x[row, i] = value
        total += value
    share = ONE / total
    for i in range(first, last):
        x[row, i] *= share
