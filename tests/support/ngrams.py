"""Expected n-grams by differentiable enumeration: every derivation with its probability as a tensor."""

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from pcfgnat.structures import DAG, RHPCFG, RuleScores, SupportTree
from tests.support.oracle import derivations

Leaves = tuple[Tensor, Tensor, Tensor]


def normalised(tree: SupportTree, leaves: Leaves) -> Leaves:
    """Rules and tokens after one more softmax, so that gradients are those of normalised probabilities."""
    chain, prefix, emit = leaves
    flat = chain.flatten(2)
    shift = torch.where(flat > -torch.inf, flat, -torch.inf).logsumexp(2).nan_to_num(neginf=0.0)
    rules = tree.prefix_rules()
    columns = []
    for rule in rules:
        same = [number for number, other in enumerate(rules) if other.parent == rule.parent]
        columns.append(prefix[:, :, same].logsumexp(2))
    totals = torch.stack(columns, 2) if columns else torch.zeros_like(prefix)
    return chain - shift[:, :, None, None], prefix - totals, emit.log_softmax(2)


class EnumeratedGrammar:
    """One sentence of a batch; all sums run over its derivations one by one."""

    def __init__(self, tree: SupportTree, leaves: Leaves, index: int) -> None:
        self.tree = tree
        self.chain, self.prefix, self.emit = (leaf[index] for leaf in leaves)

        self.structures = list(self._structures())

    def _structures(self) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
        """Yield the probability of every derivation, tokens apart, and its symbols."""
        for derivation in derivations(self.tree):
            weight = torch.zeros((), dtype=self.chain.dtype)
            for rule in derivation.rules:
                weight = weight + self._rule(*rule)
            yield weight.exp(), derivation.nodes

    def _rule(self, node: int, left: int, right: int) -> Tensor:
        d = 2**self.tree.prefix_depth
        if (node - 1) % d == 0:
            return self.chain[(node - 1) // d, 0 if left == 0 else left - (node - d), (right - 1) // d]
        k = -(-(node - 1) // d)
        start = 1 + k * d - d
        offsets = (node - start, left - start if left else 0, right - start)
        return self.prefix[k, [tuple(rule) for rule in self.tree.prefix_rules()].index(offsets)]

    def length(self) -> Tensor:
        return torch.stack([chance * len(nodes) for chance, nodes in self.structures]).sum()

    def count(self, window: list[int], inner: bool = False) -> Tensor:
        """Expected occurrences of a window; `inner`: root and last node emit nothing."""
        total = torch.zeros((), dtype=self.chain.dtype)
        for chance, symbols in self.structures:
            nodes = symbols[1:-1] if inner else symbols
            for start in range(len(nodes) - len(window) + 1):
                part = self.emit[list(nodes[start : start + len(window)]), window]
                total = total + chance * part.sum().exp()
        return total

    def windows(self, ids: list[int], n: int) -> Tensor:
        counts = [self.count(ids[i : i + n]) for i in range(len(ids) - n + 1)]
        return torch.stack(counts) if counts else torch.zeros(0, dtype=self.chain.dtype)

    def matched(self, ids: list[int], n: int) -> Tensor:
        """`Σ_g min(E[count(g)], count in ids)` over different n-grams."""
        own = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
        terms = [self.count(list(g)).clamp(max=own.count(g)) for g in sorted(set(own))]
        return torch.stack(terms).sum() if terms else torch.zeros((), dtype=self.chain.dtype)


def grammar_of(tree: SupportTree, leaves: Leaves, chain_lengths: list[int]) -> RHPCFG:
    return RHPCFG(RuleScores(*normalised(tree, leaves)), torch.tensor(chain_lengths))


def dag_leaves(lattice: DAG) -> Leaves:
    """The lattice as a grammar of depth 0."""
    emit = torch.cat([torch.zeros_like(lattice.emit[:, :1]), lattice.emit], 1)
    return lattice.transitions.unsqueeze(2), lattice.transitions.new_zeros(*lattice.emit.shape[:2], 0), emit


def all_windows(vocabulary: int, n: int) -> list[list[int]]:
    return [list(window) for window in product(range(vocabulary), repeat=n)]
