"""What every network is: weights and an architecture; objectives and decoding lie elsewhere."""

from abc import ABC
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcfgnat.nn import Embeddings, Encoder, waiting
from pcfgnat.structures import Padded
from pcfgnat.structures.distribution import check_lengths, check_target
from pcfgnat.structures.profiling import ENCODER, profiled


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, `bos … eos` on both sides.

    What an objective draws for a pair follows from its seed, and so is the same in any batch; without seeds
    torch's generator decides. `groups` numbers the sources from 0 on, where several pairs may share one and
    their targets are alternatives; without it every pair stands for itself. `num_sources` counts them, so
    that nobody has to read it off the groups.
    """

    source: Padded
    target: Padded
    seeds: Int[Tensor, "B"] | None = None
    groups: Int[Tensor, "B"] | None = None
    num_sources: int | None = None

    def __post_init__(self) -> None:
        sources, targets = self.source.ids.shape[0], self.target.ids.shape[0]
        if sources != targets:
            raise ValueError(f"there must be as many targets as sources ({sources}), got {targets}")


@dataclass(frozen=True)
class Memory:
    """An encoded batch."""

    states: Float[Tensor, "B N D"]
    mask: Bool[Tensor, "B N"]
    lengths: Int[Tensor, "B"]


class Network(nn.Module, ABC):
    """An encoder and whatever reads its states; built from its config and the size of the vocabulary.

    config:           the architecture, nothing else
    default_strategy: how to decode when nobody says otherwise, as the command line names it
    """

    default_strategy: ClassVar[str]
    config: Any
    embeddings: Embeddings
    encoder: Encoder

    @property
    def max_source_length(self) -> int:
        """The longest source that can be read, bos and eos included."""
        return self.embeddings.source_positions.limit

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.embeddings.tokens.vocabulary

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embeddings.tokens.weight.device

    @profiled(ENCODER)
    def encode(self, source: Padded) -> Memory:
        """Read the source."""
        source = self.checked(source)
        check_lengths(source.lengths, len(source.lengths), 1, source.ids.shape[1], "lengths of the source")
        mask = source.mask
        return Memory(self.encoder(self.embeddings.source(source.ids, mask), mask), mask, source.lengths)

    def checked(self, sentences: Padded) -> Padded:
        """Raise an error for unknown ids, and leave out columns that no sentence reaches into.

        Both only on the CPU: elsewhere batches are taken as they were made, without waiting for the device.
        """
        check_target(sentences, len(sentences.lengths), self.vocabulary)
        if not waiting.at_hand(sentences.lengths):
            return sentences
        width = int(sentences.lengths.max()) if len(sentences.lengths) else 0
        return Padded(sentences.ids[:, :width], sentences.lengths)

    def padded(self, sentences: Sequence[Sequence[int]]) -> Padded:
        """Put sentences into tensors on the network's device."""
        return Padded.from_lists(sentences).to(self.device)


@contextmanager
def inference(network: Network) -> Iterator[None]:
    """In this block nothing is dropped out and no gradient is kept.

    Not torch's inference mode: structures are read off gradients of their own, which that mode forbids.
    """
    training = network.training
    if training:
        network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            network.train()
