import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from pcfgnat.structures import CTC, DAG, RHPCFG, Independent, Padded, RuleScores, SupportTree, backend
from pcfgnat.structures.rhpcfg.reference import legal_chain_rules
from tests.support.grammars import oracle, random_scores
from tests.support.lattices import ctc_oracle, dag_oracle, random_ctc, random_dag, random_tokens
from tests.support.law_cases import Case, Leaves
from tests.support.laws import Laws
from tests.support.oracle_lattices import Structure, ranked

NAN = math.nan


class TestRHPCFGLaws(Laws):
    strategies = ("viterbi", "greedy", "lookahead")
    vocabulary_of_tiny, longest_of_tiny = 2, 6
    depth = 2

    def build(self, leaves: Leaves, sizes: Tensor) -> RHPCFG:
        chain, prefix, emit = leaves
        return RHPCFG(RuleScores(chain, prefix, emit), sizes)

    def random(self, sizes: list[int], vocabulary: int, scale: float) -> Leaves:
        tree = SupportTree(max(sizes), self.depth)
        scores = random_scores(tree, sizes, vocabulary=vocabulary, scale=scale, seed=2)
        return scores.chain, scores.prefix, scores.emit

    def case(self, scale: float = 1.0) -> Case:
        target = Padded.from_lists([[0, 2, 2, 1, 3], [3, 1], [1, 0, 1, 2]])
        return Case(self.random([4, 2, 3], 4, scale), torch.tensor([4, 2, 3]), target)

    def tiny(self) -> Case:
        return Case(self.random([3], 2, 1.0), torch.tensor([3]), Padded.from_lists([[0, 1]]))

    def crop(self, leaves: Leaves, size: int) -> Leaves:
        chain, prefix, emit = leaves
        return chain[:, :size, :, :size], prefix[:, :size], emit[:, : SupportTree(size, self.depth).num_nodes]

    def poison(self, leaves: Leaves, sizes: Tensor) -> Leaves:
        chain, prefix, emit = (leaf.clone() for leaf in leaves)
        block = 2**self.depth
        chain[~legal_chain_rules(SupportTree(chain.shape[1], self.depth), sizes)] = NAN
        prefix[:, 0] = emit[:, 0] = NAN
        for b, size in enumerate(sizes.tolist()):
            last = 1 + (size - 1) * block
            prefix[b, size - 1 :] = emit[b, last + 1 :] = emit[b, last - block + 1 : last] = NAN
        return chain, prefix, emit

    def structures(self, case: Case, index: int) -> list[Structure]:
        grammar = self.build(case.leaves, case.sizes)
        symbols = grammar.support(index).num_nodes
        found = oracle(grammar, index).of(case.target.to_lists()[index])
        return ranked([(score, positions(derivation.nodes, symbols)) for score, derivation in found])

    def count(self, size: int, ids: list[int]) -> int:
        return SupportTree(size, self.depth).num_derivations(len(ids))

    def impossible(self) -> list[tuple[list[int], str]]:
        return [
            ([0] * 11, "11 tokens, but 4 main-chain nodes of depth 2 derive 2 to 10"),
            ([0, 1, 0], "3 tokens, but 2 main-chain nodes of depth 2 derive 2 to 2"),
            ([1], "1 tokens, but 3 main-chain nodes of depth 2 derive 2 to 6"),
        ]


class TestDAGLaws(Laws):
    strategies = ("greedy", "lookahead", "viterbi", "joint-viterbi")
    vocabulary_of_tiny, longest_of_tiny = 2, 5

    def build(self, leaves: Leaves, sizes: Tensor) -> DAG:
        transitions, emit = leaves
        return DAG(transitions, emit, sizes)

    def case(self, scale: float = 1.0) -> Case:
        lattice = random_dag([6, 2, 5], vocabulary=4, scale=scale)
        target = Padded.from_lists([[0, 2, 2, 1], [3, 1], [1, 0, 3]])
        return Case((lattice.transitions, lattice.emit), lattice.num_nodes, target)

    def tiny(self) -> Case:
        lattice = random_dag([5], vocabulary=2)
        return Case((lattice.transitions, lattice.emit), lattice.num_nodes, Padded.from_lists([[0, 1]]))

    def crop(self, leaves: Leaves, size: int) -> Leaves:
        transitions, emit = leaves
        return transitions[:, :size, :size], emit[:, :size]

    def poison(self, leaves: Leaves, sizes: Tensor) -> Leaves:
        transitions, emit = (leaf.clone() for leaf in leaves)
        vertex = torch.arange(emit.shape[1])
        transitions[:, vertex[:, None] >= vertex] = NAN
        for b, size in enumerate(sizes.tolist()):
            emit[b, size:] = transitions[b, :, size:] = transitions[b, size - 1 :] = NAN
        return transitions, emit

    def structures(self, case: Case, index: int) -> list[Structure]:
        return dag_oracle(self.build(case.leaves, case.sizes), index).of(case.target.to_lists()[index])

    def count(self, size: int, ids: list[int]) -> int:
        return math.comb(size - 2, len(ids) - 2)

    def impossible(self) -> list[tuple[list[int], str]]:
        return [
            ([0] * 7, "7 tokens, but 6 vertices emit 2 to 6"),
            ([0, 1, 0], "3 tokens, but 2 vertices emit 2 to 2"),
            ([1], "1 tokens, but 5 vertices emit 2 to 5"),
        ]


class TestCTCLaws(Laws):
    strategies = ("greedy", "viterbi", "beam")
    vocabulary_of_tiny, longest_of_tiny = 3, 4
    blank = 1

    def build(self, leaves: Leaves, sizes: Tensor) -> CTC:
        (log_probs,) = leaves
        return CTC(log_probs, sizes, self.blank)

    def case(self, scale: float = 1.0) -> Case:
        ctc = random_ctc([5, 3, 4], blank=self.blank, scale=scale)
        return Case((ctc.log_probs,), ctc.num_slots, Padded.from_lists([[0, 2, 2], [3], [2, 0]]))

    def tiny(self) -> Case:
        ctc = random_ctc([4], vocabulary=3, blank=self.blank)
        return Case((ctc.log_probs,), ctc.num_slots, Padded.from_lists([[0]]))

    def crop(self, leaves: Leaves, size: int) -> Leaves:
        return tuple(leaf[:, :size] for leaf in leaves)

    def poison(self, leaves: Leaves, sizes: Tensor) -> Leaves:
        return poison_rows(leaves, sizes)

    def structures(self, case: Case, index: int) -> list[Structure]:
        return ctc_oracle(self.build(case.leaves, case.sizes), index).of(case.target.to_lists()[index])

    def count(self, size: int, ids: list[int]) -> int:
        repeats = sum(left == right for left, right in pairwise(ids))
        return math.comb(size + len(ids) - repeats, 2 * len(ids))

    def impossible(self) -> list[tuple[list[int], str]]:
        return [
            ([0, 0, 2, 2], "4 tokens with 2 repeats need 6 slots, but there are 5"),
            ([0, 2, 3, 0], "4 tokens with 0 repeats need 4 slots, but there are 3"),
            ([2, 1], "it contains the blank 1"),
        ]

    def check_emissions(self, marginals: Tensor, mask: Tensor) -> None:
        """Each target position is emitted at least once, and each slot emits at most one."""
        often = marginals.sum(1)
        assert bool((often[mask] >= 1 - 1e-12).all())
        assert bool((often[~mask] == 0).all())
        assert bool((marginals.sum(2) <= 1 + 1e-12).all())


class TestIndependentLaws(Laws):
    strategies = ("greedy", "viterbi")
    vocabulary_of_tiny, longest_of_tiny = 2, 3

    @pytest.fixture(params=["reference"])
    def engine(self, request: pytest.FixtureRequest) -> Iterator[str]:
        with backend(request.param):
            yield request.param

    def build(self, leaves: Leaves, sizes: Tensor) -> Independent:
        (log_probs,) = leaves
        return Independent(log_probs, sizes)

    def case(self, scale: float = 1.0) -> Case:
        target = Padded.from_lists([[0, 2, 2], [3], [2, 0]])
        return Case((random_tokens(3, 3, 4, scale=scale),), torch.tensor([3, 1, 2]), target)

    def tiny(self) -> Case:
        return Case((random_tokens(1, 3, 2),), torch.tensor([3]), Padded.from_lists([[0]]))

    def crop(self, leaves: Leaves, size: int) -> Leaves:
        return tuple(leaf[:, :size] for leaf in leaves)

    def poison(self, leaves: Leaves, sizes: Tensor) -> Leaves:
        return poison_rows(leaves, sizes)

    def structures(self, case: Case, index: int) -> list[Structure]:
        ids, rows = case.target.to_lists()[index], case.leaves[0][index].tolist()
        if len(ids) != int(case.sizes[index]):
            return []
        return ranked([(sum(rows[i][token] for i, token in enumerate(ids)), tuple(range(len(ids))))])

    def count(self, size: int, ids: list[int]) -> int:
        return int(size == len(ids))

    def impossible(self) -> list[tuple[list[int], str]]:
        return [
            ([0] * 4, "4 tokens, but the length is 3"),
            ([], "0 tokens, but the length is 1"),
            ([1], "1 tokens, but the length is 2"),
        ]


def positions(nodes: tuple[int, ...], size: int) -> tuple[int, ...]:
    """For each node the position that it emits."""
    return tuple(nodes.index(node) if node in nodes else -1 for node in range(size))


def poison_rows(leaves: Leaves, sizes: Tensor) -> Leaves:
    (log_probs,) = (leaf.clone() for leaf in leaves)
    for b, size in enumerate(sizes.tolist()):
        log_probs[b, size:] = NAN
    return (log_probs,)
