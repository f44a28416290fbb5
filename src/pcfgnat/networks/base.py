"""What every translation model does: give a loss to learn from, and translate."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcfgnat.structures import Hypothesis, Padded, Search, SpecialTokens

SPECIAL_TOKENS = SpecialTokens(pad=0, unk=1, bos=2, eos=3)


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, `bos … eos` on both sides.

    What glancing draws for a pair follows from its seed, and so is the same in any batch; without seeds
    torch's generator decides.
    """

    source: Padded
    target: Padded
    seeds: Int[Tensor, "B"] | None = None

    def __post_init__(self) -> None:
        sources, targets = self.source.ids.shape[0], self.target.ids.shape[0]
        if sources != targets:
            raise ValueError(f"there must be as many targets as sources ({sources}), got {targets}")


@dataclass(frozen=True)
class Loss:
    """What is minimised, and what it was computed from.

    value:     the mean of the model's loss over its sentences or tokens, as the model says
    sentences: how many sentences count in it
    tokens:    how many target tokens count in it
    skipped:   how many sentences were left out, because the model cannot produce their target
    metrics:   further figures to report, by name
    """

    value: Float[Tensor, ""]
    sentences: int
    tokens: int
    skipped: int
    metrics: dict[str, float] = field(default_factory=dict)


class Model(nn.Module, ABC):
    """A translation model over ids; it is built from its own config and the size of the vocabulary.

    loss_weight: what `Loss.value` is a mean over, and so what losses of several batches are weighted by
    strategies:  what `Search.strategy` may be, the default first
    """

    loss_weight: ClassVar[Literal["sentences", "tokens"]]
    strategies: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def max_source_length(self) -> int:
        """The longest source that can be translated, bos and eos counted."""

    @property
    def default_search(self) -> Search:
        """How to translate when nobody says otherwise."""
        return Search(self.strategies[0])

    @abstractmethod
    def loss(self, batch: Batch, progress: float) -> Loss:
        """Return the loss of a batch; `progress` goes from 0 to 1 through training."""

    @abstractmethod
    def translate(self, source: Padded, search: Search) -> list[list[Hypothesis]]:
        """Return the n best translations of each sentence, best first; ids include bos and eos."""

    def sweep(
        self, source: Padded, search: Search, length_penalties: Sequence[float]
    ) -> list[list[Hypothesis]]:
        """Return the best translation of each sentence under each length penalty."""
        found = [self.translate(source, replace(search, length_penalty=beta)) for beta in length_penalties]
        return [[results[0] for results in sentence] for sentence in zip(*found, strict=True)]


@contextmanager
def inference(model: Model) -> Iterator[None]:
    """In this block nothing is dropped out and no gradient is kept.

    Not torch's inference mode: structures are read off gradients of their own, which that mode forbids.
    """
    training = model.training
    if training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            model.train()
