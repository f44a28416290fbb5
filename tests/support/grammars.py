"""Random grammars for tests."""

import torch
from torch import Tensor

from pcfgnat.structures import RHPCFG, Padded, RuleScores, SupportTree
from tests.support.oracle import GrammarOracle


def masked_log_softmax(scores: Tensor, legal: Tensor) -> Tensor:
    """Log-softmax over the legal entries of the last axis; -inf elsewhere."""
    masked = scores.masked_fill(~legal, float("-inf"))
    return masked.log_softmax(-1).masked_fill(~legal, float("-inf"))


def random_scores(
    tree: SupportTree,
    chain_lengths: list[int],
    vocabulary: int = 5,
    scale: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> RuleScores:
    """Normalised scores; `scale` 20 makes them very peaked. Padding is -inf."""
    generator = torch.Generator().manual_seed(seed)
    batch, C, d = len(chain_lengths), tree.chain_length, tree.block

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    legal = torch.zeros(batch, C, d, C, dtype=torch.bool)
    for b, length in enumerate(chain_lengths):
        own = SupportTree(length, tree.prefix_depth)
        for k in range(length):
            for left, right in own.children(own.chain_node(k)):
                j = 0 if left == 0 else left - own.chain_node(k) + d
                legal[b, k, j, (right - 1) // d] = True
    chain = masked_log_softmax(normal(batch, C, d * C), legal.flatten(2)).view(batch, C, d, C)
    rules = tree.prefix_rules()
    prefix = torch.zeros(batch, C, len(rules), dtype=torch.float64)
    for parent in {rule.parent for rule in rules}:
        numbers = [number for number, rule in enumerate(rules) if rule.parent == parent]
        prefix[..., numbers] = normal(batch, C, len(numbers)).log_softmax(-1)
    emit = normal(batch, tree.num_nodes, vocabulary).log_softmax(-1)
    return RuleScores(chain.to(dtype), prefix.to(dtype), emit.to(dtype))


def random_grammar(tree: SupportTree, chain_lengths: list[int] | None = None, **options: object) -> RHPCFG:
    lengths = chain_lengths or [tree.chain_length]
    return RHPCFG(random_scores(tree, lengths, **options), torch.tensor(lengths))  # type: ignore[arg-type]


def random_target(lengths: list[int], vocabulary: int = 5, seed: int = 0) -> Padded:
    generator = torch.Generator().manual_seed(seed)
    return Padded.from_lists(
        [torch.randint(vocabulary, (length,), generator=generator).tolist() for length in lengths]
    )


def oracle(grammar: RHPCFG, index: int) -> GrammarOracle:
    scores = grammar.scores
    tables = (scores.chain[index].tolist(), scores.prefix[index].tolist(), scores.emit[index].tolist())
    return GrammarOracle(grammar.support(index), *tables)
