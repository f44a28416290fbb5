"""From ids to rows: tokens of 8 bits and positions."""

import numpy as np

from pcfgnat.runtimes.native.kernels.output import TOKEN_MIDDLE
from pcfgnat.runtimes.native.kernels.products import jit

MIDDLE = np.float32(TOKEN_MIDDLE)


@jit
def embed(ids, bounds, tokens, scales, factor, positions):
    """Return embedded sentences, one under the other."""
    width = tokens.shape[1]
    out = np.empty((len(ids), width), np.float32)
    for b in range(len(bounds) - 1):
        for row in range(bounds[b], bounds[b + 1]):
            token, position = ids[row], row - bounds[b]
            scale = scales[token] * factor
            for i in range(width):
                out[row, i] = (np.float32(tokens[token, i]) - MIDDLE) * scale + positions[position, i]
    return out


@jit
def blanks(bounds, kinds, positions):
    """Return canvases on which nothing is known: `kinds` are what the first, inner and last nodes hold."""
    width = positions.shape[1]
    out = np.empty((bounds[-1], width), np.float32)
    for b in range(len(bounds) - 1):
        last = bounds[b + 1] - 1
        for row in range(bounds[b], last + 1):
            kind = 0 if row == bounds[b] else (2 if row == last else 1)
            for i in range(width):
                out[row, i] = kinds[kind, i] + positions[row - bounds[b], i]
    return out


@jit
def add_opposite(canvas, bounds, copied, source_bounds):
    """Add to each node what stands opposite to it, when source and canvas are spread evenly."""
    for b in range(len(bounds) - 1):
        nodes, sources = bounds[b + 1] - bounds[b], source_bounds[b + 1] - source_bounds[b]
        for node in range(nodes):
            row = source_bounds[b] + node * sources // nodes
            for i in range(canvas.shape[1]):
                canvas[bounds[b] + node, i] += copied[row, i]


@jit
def embed_at(ids, places, tokens, scales, factor, positions):
    """Return embedded tokens that stand at any positions."""
    width = tokens.shape[1]
    out = np.empty((len(ids), width), np.float32)
    for row in range(len(ids)):
        scale = scales[ids[row]] * factor
        for i in range(width):
            out[row, i] = (np.float32(tokens[ids[row], i]) - MIDDLE) * scale + positions[places[row], i]
    return out
