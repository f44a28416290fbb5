"""What happens to rows between products: norms, activations, and the way into 8 bits."""

from pcfgnat.runtimes.native.kernels.memory import long_at, single_at
from pcfgnat.runtimes.native.kernels.operations import operation
from pcfgnat.runtimes.native.kernels.products import LANES
from pcfgnat.runtimes.native.kernels.row_code import RowCode

CODE = RowCode.of(LANES)
_norm, _size, _to_bytes, _gelu, _relu = CODE.norm, CODE.size, CODE.to_bytes, CODE.gelu, CODE.relu
_embed, _sum = CODE.embed, CODE.sum


@operation()
def norm_rows(ops, count, width, x, update, update_stride, norm, out, bytes_, scales):
    """Add to rows what a sub-layer wrote; write the norm of each, which may take its place, as bytes too."""
    steps = width // LANES
    for row in range(count):
        own = out + 4 * width * row
        most = _norm(x + 4 * width * row, update + update_stride * row, norm, norm + 4 * width, own, steps)
        _to_bytes(own, most, bytes_ + width * row, scales + 4 * row, steps)


@operation()
def byte_rows(ops, count, width, x, bytes_, scales):
    """Write rows as bytes."""
    steps = width // LANES
    for row in range(count):
        own = x + 4 * width * row
        _to_bytes(own, _size(own, steps), bytes_ + width * row, scales + 4 * row, steps)


@operation()
def activate_rows(ops, count, width, x, is_gelu, bytes_, scales):
    """Replace rows by x · Φ(x), or by what is positive of them, and write them as bytes."""
    steps = width // LANES
    for row in range(count):
        own = x + 4 * width * row
        most = _gelu(own, steps) if is_gelu else _relu(own, steps)
        _to_bytes(own, most, bytes_ + width * row, scales + 4 * row, steps)


@operation()
def embed_rows(ops, count, width, ids, places, tokens, token_scales, positions, out):
    """Write embedded tokens, each at a position; `ids` and `places` are integers of 64 bits."""
    steps = width // LANES
    for row in range(count):
        token, place = long_at(ids + 8 * row), long_at(places + 8 * row)
        _embed(
            tokens + width * token,
            single_at(token_scales + 4 * token),
            positions + 4 * width * place,
            out + 4 * width * row,
            steps,
        )


@operation()
def blank_rows(ops, nodes, sources, width, kinds, positions, copied, out):
    """Write a canvas on which nothing is known: `kinds` are what the first, inner and last nodes hold.

    copied: rows of the source, of which that opposite to a node is added, source and canvas being spread
            evenly; none if 0
    """
    steps = width // LANES
    for node in range(nodes):
        kind = 0 if node == 0 else (2 if node == nodes - 1 else 1)
        own = out + 4 * width * node
        _sum(kinds + 4 * width * kind, positions + 4 * width * node, own, steps)
        if copied:
            _sum(own, copied + 4 * width * (node * sources // nodes), own, steps)
