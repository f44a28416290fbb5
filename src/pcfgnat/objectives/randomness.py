"""Random numbers that follow from a sentence's seed, and so are the same in every batch."""

from contextlib import AbstractContextManager

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks import Batch

GOLDEN = -0x61C8864680B583EB  # 2⁶⁴ divided by the golden ratio, as a signed number


def noise(seeds: Int[Tensor, "B"], nodes: int, stream: int = 0) -> Float[Tensor, "B m"]:
    """Draw numbers from 0 to 1 for the nodes of each sentence: splitmix64 of its seed and the node.

    Each `stream` is independent of the others, for objectives that draw more than once.
    """
    node = torch.arange(1, nodes + 1, device=seeds.device)
    start = _mixed(seeds)
    if stream:
        start = _mixed(start + torch.full_like(seeds, stream) * GOLDEN)  # tensors wrap around, int does not
    x = start.unsqueeze(1) + node * GOLDEN
    return (_mixed(x) >> 11 & 2**53 - 1).double() / 2**53


def own_seeds(batch: Batch) -> Int[Tensor, "B"]:
    """Return the seeds of a batch; without any, torch's generator draws them."""
    if batch.seeds is not None:
        return batch.seeds
    return torch.randint(2**62, batch.target.lengths.shape, device=batch.target.lengths.device)


def _mixed(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Scramble 64-bit numbers; products wrap around, and shifts fill up with zeros."""
    x = (x ^ (x >> 30 & 2**34 - 1)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27 & 2**37 - 1)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31 & 2**33 - 1)


def generator_restored(device: torch.device) -> AbstractContextManager[None]:
    """A block after which torch's generator stands where it stood before."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
