"""From pairs of a corpus to a batch."""

from collections.abc import Sequence

import torch

from pcfgnat.networks import Batch
from pcfgnat.structures import Padded
from pcfgnat.text import ParallelCorpus, padded


def collated(corpus: ParallelCorpus, indices: Sequence[int], device: torch.device, draw: int = 0) -> Batch:
    """Put pairs of a corpus into tensors; `draw` makes for other seeds of the same pairs."""
    pairs = [corpus[index] for index in indices]
    sides = [padded([pair[side] for pair in pairs]) for side in (0, 1)]
    source, target = (
        Padded(torch.from_numpy(ids).to(device), torch.from_numpy(lengths).to(device))
        for ids, lengths in sides
    )
    seeds = torch.tensor(indices, device=device) * 2**32 + draw
    return Batch(source, target, seeds)
