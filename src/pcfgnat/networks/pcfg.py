"""PCFG-NAT (Gui et al. 2023): the decoder's states are the symbols of a right-heavy grammar."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.networks.parallel import Canvas, Memory, ParallelConfig, ParallelModel, top_tokens
from pcfgnat.nn import LinkConfig, Links, initialise
from pcfgnat.structures import RHPCFG, Padded, RuleScores, SequenceDistribution, SupportTree

PARENT, LEFT, RIGHT = range(3)  # what a symbol can be in a rule


@dataclass(frozen=True)
class PCFGConfig(ParallelConfig):
    """The grammar's size, and how its rules are scored.

    upsampling:   λ, main-chain nodes for each source token
    prefix_depth: l, depth of the prefix trees
    """

    upsampling: int = 4
    prefix_depth: int = 1
    rules: LinkConfig = field(default_factory=LinkConfig)

    def __post_init__(self) -> None:
        if self.upsampling < 1:
            raise ValueError(f"upsampling must be at least 1, got {self.upsampling}")
        if not 0 <= self.prefix_depth <= 4:
            raise ValueError(f"prefix_depth must be in 0 … 4, got {self.prefix_depth}")

    @property
    def block(self) -> int:
        """d = 2^l, symbols for each main-chain node."""
        return 1 << self.prefix_depth


class PCFG(ParallelModel):
    """p(Y|X) = Σ over parse trees of a right-heavy grammar whose rules and tokens the decoder scores."""

    strategies = ("viterbi", "greedy", "lookahead", "sample")
    first_node = 1

    def __init__(self, config: PCFGConfig, vocabulary: int) -> None:
        transformer = config.transformer
        longest = config.upsampling * transformer.max_positions * config.block + 2
        super().__init__(config, vocabulary, longest)
        self.config = config
        self.rules = RuleNetwork(config.rules, transformer.width, longest, config.prefix_depth)
        initialise(self, transformer)

    def canvas_lengths(self, memory: Memory, target: Padded | None) -> Int[Tensor, "B"]:
        """Return m = λ · Lx · 2^l + 2."""
        return memory.lengths * (self.config.upsampling * self.config.block) + 2

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> RHPCFG:
        """Return the grammar of each sentence."""
        chain_lengths = canvas.source_lengths * self.config.upsampling + 1
        chain, prefix = self.rules(canvas.states, chain_lengths)
        return RHPCFG(RuleScores(chain, prefix, emit), chain_lengths)

    def lattice(self, distribution: SequenceDistribution, top: int) -> LatticeScores:
        """Return the rules and best tokens of the first sentence's grammar."""
        assert isinstance(distribution, RHPCFG)
        scores = distribution.scores
        rules = (table[0].cpu().numpy() for table in (scores.chain, scores.prefix))
        return LatticeScores("pcfg", self.config.prefix_depth, *top_tokens(scores.emit[0], top), *rules)


class RuleNetwork(nn.Module):
    """Log-probabilities of all rules from the states of all symbols (paper, section 3.2.2).

    `score(a, b, c) = q_a·k_b + q_a·r_c + k_b·r_c = (q_a + k_b)·r_c + q_a·k_b`, where q, k and r are the
    vectors of a symbol as parent, left and right child, and one softmax over all legal pairs (b, c) of a.
    """

    def __init__(self, config: LinkConfig, width: int, positions: int, prefix_depth: int) -> None:
        super().__init__()
        self.prefix_depth = prefix_depth
        self.links = Links(config, width, positions, roles=3)

    def forward(
        self, states: Float[Tensor, "B m D"], chain_lengths: Int[Tensor, "B"]
    ) -> tuple[Float[Tensor, "B C d C"], Float[Tensor, "B C R"]]:
        """Score main-chain rules and prefix rules, as `RuleScores` arranges them."""
        block = 1 << self.prefix_depth
        tree = SupportTree((states.shape[1] - 2) // block + 1, self.prefix_depth)
        features = self.links.features(states)
        on_chain, others = features[:, 1::block], features[:, _off_chain(tree, states.device)]
        place = _places(tree, states.device)
        chain = self._chain(
            self.links.vectors(PARENT, on_chain),
            self.links.vectors(LEFT, others)[:, :, place],
            self.links.vectors(RIGHT, on_chain),
        )
        legal = _legal(tree, chain_lengths)
        rules = self.links.mixed(chain, legal.flatten(2), on_chain)
        return rules.view(legal.shape), self._prefix(tree, others, place)

    def _chain(
        self,
        parent: Float[Tensor, "B H C E"],
        lefts: Float[Tensor, "B H C d E"],
        right: Float[Tensor, "B H C E"],
    ) -> Float[Tensor, "B H C K"]:
        """Score (parent, left, right) on the main chain; K = d · C pairs of a parent."""
        pair = parent.unsqueeze(3)
        both = (pair + lefts).flatten(2, 3) @ right.transpose(2, 3)  # B H C·d C
        own = (pair * lefts).sum(-1, keepdim=True).flatten(2, 3)
        return (both + own).view(*parent.shape[:3], -1)

    def _prefix(
        self, tree: SupportTree, features: Float[Tensor, "B O F"], place: Int[Tensor, "C d"]
    ) -> Float[Tensor, "B C R"]:
        """Score the rules inside prefix trees, parent by parent; leaves have none."""
        rules = tree.prefix_rules()
        if not rules:
            return features.new_zeros(len(features), tree.chain_length, 0)
        parent, left, right = (self.links.vectors(role, features) for role in (PARENT, LEFT, RIGHT))
        found = []
        for offset in sorted({rule.parent for rule in rules}):
            own = [rule for rule in rules if rule.parent == offset]
            q = parent[:, :, place[:, offset]].unsqueeze(3)  # B H C 1 E
            k = left[:, :, place[:, [rule.left for rule in own]]]
            r = right[:, :, place[:, [rule.right for rule in own]]]
            scores = ((q + k) * r + q * k).sum(-1)  # B H C K
            legal = torch.ones(1, *scores.shape[2:], dtype=torch.bool, device=scores.device)
            found.append(self.links.mixed(scores, legal, features[:, place[:, offset]]))
        return torch.cat(found, -1)


def _off_chain(tree: SupportTree, device: torch.device) -> Int[Tensor, "O"]:
    """Return all symbols that are not on the main chain: that of ε and those of prefix trees."""
    symbol = torch.arange(tree.num_nodes, device=device)
    return symbol[(symbol == 0) | ((symbol - 1) % tree.block != 0)]


def _places(tree: SupportTree, device: torch.device) -> Int[Tensor, "C d"]:
    """Say where among the symbols off the main chain those of each prefix tree are; ε is at offset 0."""
    k = torch.arange(tree.chain_length, device=device).unsqueeze(1)
    offset = torch.arange(tree.block, device=device)
    place = (k - 1) * (tree.block - 1) + offset
    return place.masked_fill((offset == 0) | (k == 0), 0)


def _legal(tree: SupportTree, chain_lengths: Int[Tensor, "B"]) -> Bool[Tensor, "B C d C"]:
    """Mark the main-chain rules: the right child is later and exists; the root has no left child."""
    node = torch.arange(tree.chain_length, device=chain_lengths.device)
    later = node > node.unsqueeze(1)
    exists = node < chain_lengths.unsqueeze(1)
    left = (node.unsqueeze(1) > 0) | (torch.arange(tree.block, device=node.device) == 0)
    return later.unsqueeze(1) & exists[:, None, None] & left.unsqueeze(2)
