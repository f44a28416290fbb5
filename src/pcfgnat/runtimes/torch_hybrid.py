"""Hybrid networks as torch runs them: a batch is encoded once, for drafts and for what reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.networks import HybridNetwork, Memory, inference
from pcfgnat.networks.emissions import encoded_distribution
from pcfgnat.runtimes.base import Sources
from pcfgnat.runtimes.torch_steps import TorchStepper, TorchSteps
from pcfgnat.structures.by_length import ByLength
from pcfgnat.text.special import SPECIAL_TOKENS


class TorchHybrid(TorchSteps):
    """A network that drafts and reads."""

    def __init__(self, network: HybridNetwork) -> None:
        super().__init__(network.reader)
        self._whole = network

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield all sources with their grammars, which were run together."""
        if sources:
            yield from self.read_drafts(sources).grammars()

    def read_drafts(self, sources: Sources) -> "TorchDraftsReader":
        """Encode sources."""
        with inference(self._whole):
            return TorchDraftsReader(self._whole, self._whole.encode(self._whole.padded(sources)))


@dataclass(frozen=True)
class TorchDraftsReader:
    """Sources that have been encoded."""

    network: HybridNetwork
    memory: Memory

    def grammars(self) -> Iterator[tuple[Sequence[int], Grammars]]:
        """Yield all sources with their grammars, which were run together."""
        found = encoded_distribution(self.network.drafter, self.memory)
        assert isinstance(found, ByLength)
        yield range(len(self.memory.lengths)), found.grammars(SPECIAL_TOKENS)

    def start(self) -> TorchStepper:
        """Return the reader of all sources."""
        with inference(self.network), torch.inference_mode():
            return TorchStepper(self.network.reader, self.memory)
