"""Sizes of tiles, and the calls of the kernels on tensors that exist."""

from functools import lru_cache
from typing import Any

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.prefix_plan import prefix_plan
from pcfgnat.structures.rhpcfg.triton import kernels
from pcfgnat.structures.semiring import NEG_INF

WARPS = 4
TILE = 1024  # numbers of a tile, 8 per thread: more made the compiler spill registers
LARGEST_WIDTH, SMALLEST_WIDTH = 64, 16

Tables = tuple[Float[Tensor, "B C N"], Float[Tensor, "B C Q N"]]


def tiles(positions: int) -> dict[str, int]:
    """Return the tile for targets of so many positions: wide enough for one if that is possible."""
    width = min(max(triton.next_power_of_2(positions), SMALLEST_WIDTH), LARGEST_WIDTH)
    return {"TILE_C": TILE // width, "TILE_N": width}


@lru_cache(maxsize=64)
def states(depth: int, device: torch.device) -> Int[Tensor, "Q 2"]:
    """Return the states of a prefix tree on a device; copied there once."""
    return torch.from_numpy(prefix_plan(depth).states).to(device, torch.int32)


def inside(
    heads: Float[Tensor, "B C Q N"],
    chain: Float[Tensor, "B C d C"],
    chain_lengths: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    depth: int,
) -> Tables:
    """Return the spans and the sums over right children of every sentence."""
    spans = heads.new_full(_span_shape(heads), NEG_INF)
    rights = torch.full_like(heads, NEG_INF)
    _run(kernels.inside_kernel, depth, (heads, chain), (chain_lengths, lengths), (spans, rights))
    return spans, rights


def outside(
    heads: Float[Tensor, "B C Q N"],
    chain: Float[Tensor, "B C d C"],
    sizes: tuple[Int[Tensor, "B"], Int[Tensor, "B"]],
    tables: Tables,
    weights: Float[Tensor, "B"],
    depth: int,
) -> tuple[Float[Tensor, "B C Q N"], Float[Tensor, "B C d C"]]:
    """Return the gradients of heads and chain, the latter in the precision of the sums."""
    mass = torch.zeros_like(tables[0])
    gradients = torch.zeros_like(heads), torch.zeros(chain.shape, dtype=heads.dtype, device=heads.device)
    given = weights.to(heads.dtype).contiguous()
    _run(kernels.outside_kernel, depth, (heads, chain), sizes, (*tables, given, mass, *gradients))
    return gradients


def best(
    heads: Float[Tensor, "B C Q N"],
    chain: Float[Tensor, "B C d C"],
    chain_lengths: Int[Tensor, "B"],
    lengths: Int[Tensor, "B"],
    depth: int,
) -> tuple[Float[Tensor, "B C N"], Int[Tensor, "B C N"]]:
    """Return the best span of every node from every position, and the first step of each."""
    spans = heads.new_full(_span_shape(heads), NEG_INF)
    back = torch.full_like(spans, -1, dtype=torch.int32)
    _run(kernels.best_kernel, depth, (heads, chain), (chain_lengths, lengths), (spans, back))
    return spans, back


def trace(
    spans: Float[Tensor, "B C N"],
    back: Int[Tensor, "B C N"],
    sizes: tuple[Int[Tensor, "B"], Int[Tensor, "B"]],
    starts: Int[Tensor, "B"],
    depth: int,
) -> Float[Tensor, "B C Q N"]:
    """Return 1 at the heads along the best derivation from each start, 0 elsewhere."""
    batch, nodes, width = spans.shape
    own = states(depth, spans.device)
    marks = spans.new_zeros(batch, nodes, len(own), width)
    if batch and width:
        arguments = (own, *_contiguous(*sizes, starts), spans, back, marks, nodes, width, len(own))
        kernels.trace_kernel[(batch,)](*arguments, num_warps=1, num_stages=1)
    return marks


def _run(
    kernel: Any, depth: int, scores: tuple[Tensor, ...], sizes: tuple[Tensor, ...], tables: tuple[Tensor, ...]
) -> None:
    """Launch one program for every sentence; none where there is no sentence or no position."""
    heads, chain = _contiguous(*scores)
    batch, nodes, count, width = heads.shape
    if not (batch and width):
        return
    own = states(depth, heads.device)
    arguments = (heads, chain, own, *_contiguous(*sizes), *tables, nodes, width, chain.shape[2], count)
    kernel[(batch,)](*arguments, **tiles(width), num_warps=WARPS, num_stages=1)


def _span_shape(heads: Float[Tensor, "B C Q N"]) -> tuple[int, int, int]:
    return heads.shape[0], heads.shape[1], heads.shape[3]


def _contiguous(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.contiguous() for tensor in tensors)
