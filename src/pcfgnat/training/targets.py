"""Which pairs an epoch has, where sources have several targets, and how they come into batches."""

from typing import Literal

import torch

from pcfgnat.networks import Batch
from pcfgnat.structures.distribution import moved
from pcfgnat.text import Batches, BatchSettings, ParallelCorpus, batches
from pcfgnat.text.targets import TargetGroups
from pcfgnat.training.collate import collated
from pcfgnat.training.config import TrainingError

Targets = Literal["all", "mixture", "log_sum"]


class TrainingPairs:
    """The pairs of a corpus as training takes them; everything follows from seed and epoch.

    all:     every pair by itself
    mixture: every source once an epoch, with one of its targets
    log_sum: every source once an epoch, with all of its targets
    """

    def __init__(self, corpus: ParallelCorpus, targets: Targets) -> None:
        self.corpus, self.targets = corpus, targets
        self._groups = None if targets == "all" else TargetGroups.of(corpus)
        if self._groups is not None and len(self._groups) == len(corpus):
            raise TrainingError(
                f"targets={targets} needs sources with several targets, as `prepare --train RAW DISTILLED` "
                f"writes them, got {len(corpus)} different sources"
            )

    def plan(self, settings: BatchSettings, epoch: int) -> Batches:
        """Return the batches of an epoch; with log_sum a source counts once, by its longest target."""
        if self._groups is None:
            return batches(self.corpus, settings, epoch)
        if self.targets == "mixture":
            return batches(self.corpus, settings, epoch, self._groups.drawn(settings.seed, epoch))
        lengths = self._groups.longest(self.corpus.target_lengths)
        return batches(self.corpus, settings, epoch, self._groups.first, lengths)

    def batch(self, indices: list[int], device: torch.device, draw: int) -> Batch:
        """Put pairs into tensors; with log_sum, those of one source beside each other."""
        if self._groups is None or self.targets == "mixture":
            return collated(self.corpus, indices, device, draw)
        own = [self._groups.of_pair(index) for index in indices]
        rows = collated(self.corpus, [pair for pairs in own for pair in pairs], device, draw)
        groups = [group for group, pairs in enumerate(own) for _ in pairs]
        return Batch(rows.source, rows.target, rows.seeds, moved(torch.tensor(groups), device), len(own))
