"""From pairs of a corpus to a batch."""

from collections.abc import Sequence

import torch

from pcfgnat.networks import Batch
from pcfgnat.structures import Padded
from pcfgnat.structures.distribution import moved
from pcfgnat.text import ParallelCorpus, padded


def collated(corpus: ParallelCorpus, indices: Sequence[int], device: torch.device, draw: int = 0) -> Batch:
    """Put pairs of a corpus into tensors; `draw` makes for other seeds of the same pairs."""
    pairs = [corpus[index] for index in indices]
    sides = [padded([pair[side] for pair in pairs]) for side in (0, 1)]
    source, target = (
        Padded(torch.from_numpy(ids), torch.from_numpy(lengths)).to(device)  # checked where it is made
        for ids, lengths in sides
    )
    seeds = torch.tensor(indices) * 2**32 + draw
    return Batch(source, target, moved(seeds, device))
