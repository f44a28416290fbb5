"""What a structure supplies so that the laws can be put to it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from torch import Tensor

from pcfgnat.structures import Hypothesis, Padded, Search, SequenceDistribution, backend
from tests.support.oracle import log_sum
from tests.support.oracle_lattices import Structure

Leaves = tuple[Tensor, ...]


@dataclass(frozen=True)
class Case:
    """A batch: the log-weights that a distribution is built from, the true sizes, and a target each."""

    leaves: Leaves
    sizes: Tensor
    target: Padded

    def rows(self, rows: Tensor) -> "Case":
        """These sentences in this order, padding included."""
        ids, lengths = self.target.ids[rows], self.target.lengths[rows]
        return Case(tuple(leaf[rows] for leaf in self.leaves), self.sizes[rows], Padded(ids, lengths))

    def row(self, index: int, times: int = 1) -> "Case":
        """One sentence as often as wanted."""
        return self.rows(torch.full((times,), index))

    def with_targets(self, sentences: list[list[int]]) -> "Case":
        return replace(self, target=Padded.from_lists(sentences))

    def to(self, dtype: torch.dtype) -> "Case":
        return replace(self, leaves=tuple(leaf.to(dtype) for leaf in self.leaves))


class LawCases(ABC):
    """The cases of one structure; `tiny` is a single sentence over two tokens or three."""

    strategies: tuple[str, ...]
    vocabulary_of_tiny: int
    longest_of_tiny: int

    @pytest.fixture(params=["reference", "numba"])
    def engine(self, request: pytest.FixtureRequest) -> Iterator[str]:
        with backend(request.param):
            yield request.param

    @abstractmethod
    def build(self, leaves: Leaves, sizes: Tensor) -> SequenceDistribution: ...

    @abstractmethod
    def case(self, scale: float = 1.0) -> Case:
        """Three sentences of different sizes; the targets are feasible, the first has several structures."""

    @abstractmethod
    def tiny(self) -> Case: ...

    @abstractmethod
    def crop(self, leaves: Leaves, size: int) -> Leaves:
        """The leaves of a batch without the padding that a sentence of this size does not need."""

    @abstractmethod
    def poison(self, leaves: Leaves, sizes: Tensor) -> Leaves:
        """The leaves with NaN wherever the distribution must not look."""

    @abstractmethod
    def structures(self, case: Case, index: int) -> list[Structure]:
        """All structures of a target, enumerated, best first."""

    @abstractmethod
    def count(self, size: int, ids: list[int]) -> int:
        """The number of structures of a target, by a formula."""

    @abstractmethod
    def impossible(self) -> list[tuple[list[int], str]]:
        """For each sentence of `case` a target of probability 0 and what the reason must say."""

    def distribution(self, case: Case) -> SequenceDistribution:
        return self.build(case.leaves, case.sizes)

    def alone(self, case: Case, index: int) -> Case:
        """One sentence without padding."""
        row = case.row(index)
        ids = [case.target.to_lists()[index]]
        return Case(self.crop(row.leaves, int(row.sizes[0])), row.sizes, Padded.from_lists(ids))

    def posterior_chances(self, case: Case, index: int) -> list[tuple[float, tuple[int, ...]]]:
        found = self.structures(case, index)
        total = log_sum([score for score, _ in found])
        return [(math.exp(score - total), position) for score, position in found]

    def all_sentences(self) -> Case:
        """The tiny case with every sentence over its vocabulary as a target, too long ones included."""
        tokens = range(self.vocabulary_of_tiny)
        lengths = range(self.longest_of_tiny + 2)
        sentences = [list(ids) for n in lengths for ids in product(tokens, repeat=n)]
        return self.tiny().row(0, len(sentences)).with_targets(sentences)

    def poisoned(self) -> Case:
        """The case with NaN in padded weights, and padded targets full of nonsense."""
        case = self.case()
        width = case.target.ids.shape[1] + 2
        ids = torch.full((3, width), -(10**9))
        ids[:, : width - 2] = torch.where(case.target.mask, case.target.ids, 10**9)
        leaves = self.poison(case.leaves, case.sizes)
        assert any(bool(leaf.isnan().any()) for leaf in leaves)
        return Case(leaves, case.sizes, Padded(ids, case.target.lengths))

    def gradients(self, case: Case, entropy: bool = False) -> Leaves:
        """Gradients of log P, or of the entropy, of all targets."""
        leaves = tuple(leaf.clone().requires_grad_() for leaf in case.leaves)
        posterior = self.build(leaves, case.sizes).posterior(case.target)
        value = posterior.entropy() if entropy else posterior.log_partition
        return torch.autograd.grad(value, leaves, torch.ones_like(value), materialize_grads=True)

    def decode_alone(self, index: int, strategy: str) -> Hypothesis:
        clean = self.alone(self.case(), index)
        (hypothesis,) = self.distribution(clean).mode(Search(strategy=strategy))
        return hypothesis
