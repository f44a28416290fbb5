"""The log-probabilities of a batch of right-heavy grammars."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from pcfgnat.grammar.support_tree import SupportTree


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
        for name in ("prefix", "emit"):
            other = getattr(self, name)
            if other.device != self.chain.device:
                raise ValueError(f"{name} must be on {self.chain.device} like chain, got {other.device}")

    @property
    def tree(self) -> SupportTree:
        """Return the support tree that the padded batch shares; its shapes tell chain length and depth."""
        return SupportTree(self.chain.shape[1], self.chain.shape[2].bit_length() - 1)
