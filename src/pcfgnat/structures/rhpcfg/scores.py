"""The log-probabilities of a batch of right-heavy grammars."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.arguments import check_alike, check_scores
from pcfgnat.structures.rhpcfg.reference import legal_chain_rules
from pcfgnat.structures.semiring import NEG_INF, logsumexp


@dataclass(frozen=True)
class RuleScores:
    """Log-probabilities of rules and tokens; impossible is -inf.

    chain:  `[b, k, j, k2]` from main-chain node k to left child j (0 = ε, else in-order offset j of its
            prefix tree) and right child main-chain node k2; one distribution over all legal (j, k2) of k
    prefix: `[b, k, r]` for rule r of `SupportTree.prefix_rules()` in the prefix tree of main-chain node k
    emit:   `[b, i, v]` for token v at symbol i

    Entries that no rule of the grammar uses count for nothing, whatever they hold.
    """

    chain: Float[Tensor, "B C d C"]
    prefix: Float[Tensor, "B C R"]
    emit: Float[Tensor, "B m V"]

    def __post_init__(self) -> None:
        check_scores({"chain": self.chain, "prefix": self.prefix, "emit": self.emit})
        if self.chain.dim() != 4 or self.chain.shape[1] != self.chain.shape[3]:
            raise ValueError(f"chain must have shape (B, C, d, C), got {tuple(self.chain.shape)}")
        batch, length, block, _ = self.chain.shape
        if block < 1 or block & (block - 1):
            raise ValueError(f"chain's third axis d must be a power of two, got {block}")
        tree = self.tree
        expected = (batch, length, len(tree.prefix_rules()))
        if tuple(self.prefix.shape) != expected:
            raise ValueError(f"prefix must have shape {expected}, got {tuple(self.prefix.shape)}")
        if self.emit.dim() != 3 or tuple(self.emit.shape[:2]) != (batch, tree.num_nodes):
            raise ValueError(
                f"emit must have shape ({batch}, {tree.num_nodes}, V), got {tuple(self.emit.shape)}"
            )
        check_alike({"chain": self.chain, "prefix": self.prefix, "emit": self.emit})

    def __repr__(self) -> str:
        batch, symbols, vocabulary = self.emit.shape
        return (
            f"RuleScores({batch} grammars of {symbols} symbols, chain_length={self.tree.chain_length}, "
            f"prefix_depth={self.tree.prefix_depth}, vocabulary={vocabulary}, "
            f"{self.chain.dtype}, {self.chain.device})"
        )

    @classmethod
    def zeros(
        cls,
        tree: SupportTree,
        batch: int,
        vocabulary: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> "RuleScores":
        """Return weights of 1 everywhere: log P then counts derivations. Not normalised."""
        chain, prefix, emit = _shapes(tree, batch, vocabulary)
        return cls(
            torch.zeros(chain, dtype=dtype, device=device),
            torch.zeros(prefix, dtype=dtype, device=device),
            torch.zeros(emit, dtype=dtype, device=device),
        )

    @classmethod
    def random(
        cls,
        tree: SupportTree,
        batch: int,
        vocabulary: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> "RuleScores":
        """Return normalised grammars from standard normal scores, on the device of the generator."""
        device = torch.device("cpu") if generator is None else generator.device
        drawn = (
            torch.randn(shape, generator=generator, dtype=dtype, device=device)
            for shape in _shapes(tree, batch, vocabulary)
        )
        return cls(*drawn).log_softmax()

    def log_softmax(self, chain_lengths: Int[Tensor, "B"] | None = None) -> "RuleScores":
        """Normalise each node's rules, and each symbol's tokens, by themselves; -inf where no rule is.

        Without `chain_lengths` every grammar uses the whole support tree. For weights that shall keep their
        distribution over derivations, see `RHPCFG.normalised`.
        """
        tree = self.tree
        if chain_lengths is None:
            chain_lengths = torch.full(
                (len(self.chain),), tree.chain_length, dtype=torch.int64, device=self.chain.device
            )
        chain = torch.where(legal_chain_rules(tree, chain_lengths), self.chain, NEG_INF)
        prefix = self.prefix.clone()
        for parent in {rule.parent for rule in tree.prefix_rules()}:
            own = [number for number, rule in enumerate(tree.prefix_rules()) if rule.parent == parent]
            prefix[..., own] = _normalised(self.prefix[..., own])
        return RuleScores(_normalised(chain.flatten(2)).view_as(chain), prefix, _normalised(self.emit))

    @property
    def tree(self) -> SupportTree:
        """Return the support tree that the padded batch shares; its shapes tell chain length and depth."""
        return SupportTree(self.chain.shape[1], self.chain.shape[2].bit_length() - 1)


@dataclass(frozen=True)
class RuleMarginals:
    """Logs of the posterior probability of each rule and of each symbol emitting each position.

    They are logs of probabilities in the dtype of the scores: what is less than its smallest number is -inf.
    """

    chain: Float[Tensor, "B C d C"]
    prefix: Float[Tensor, "B C R"]
    tokens: Float[Tensor, "B m N"]


def _shapes(tree: SupportTree, batch: int, vocabulary: int) -> tuple[tuple[int, ...], ...]:
    length = tree.chain_length
    return (
        (batch, length, tree.block, length),
        (batch, length, len(tree.prefix_rules())),
        (batch, tree.num_nodes, vocabulary),
    )


def _normalised(scores: Float[Tensor, "*rows k"]) -> Float[Tensor, "*rows k"]:
    """Log-softmax; a row of nothing but -inf stays so."""
    total = logsumexp(scores, -1).unsqueeze(-1)
    return torch.where(total == NEG_INF, NEG_INF, scores - torch.where(total == NEG_INF, 0.0, total))
