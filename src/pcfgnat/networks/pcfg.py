"""PCFG-NAT (Gui et al. 2023): the decoder's states are the symbols of a right-heavy grammar."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pcfgnat.grammar.canvas import GRAMMAR, Geometry, legal_rules, off_chain, places
from pcfgnat.networks.canvas import Canvas, UpsampledConfig, UpsampledNetwork
from pcfgnat.nn import LinkConfig, Links, initialise
from pcfgnat.structures import RHPCFG, RuleScores, SupportTree
from pcfgnat.structures.profiling import RULE_SCORES, profiled
from pcfgnat.structures.transforms import without_autocast

PARENT, LEFT, RIGHT = range(3)  # what a symbol can be in a rule


@dataclass(frozen=True)
class PCFGConfig(UpsampledConfig):
    """The grammar's size, and how its rules are scored.

    upsampling:   λ, main-chain nodes per source token
    prefix_depth: l, depth of the prefix trees
    rules:        how rules are scored
    """

    upsampling: int = 4
    prefix_depth: int = 1
    rules: LinkConfig = field(default_factory=LinkConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.prefix_depth <= 4:
            raise ValueError(f"prefix_depth must be in 0 … 4, got {self.prefix_depth}")

    @property
    def geometry(self) -> Geometry:
        """How the canvas follows from the source."""
        return Geometry("grammar", self.upsampling, self.prefix_depth)


class PCFGNetwork(UpsampledNetwork):
    """p(Y|X) = Σ over parse trees of a right-heavy grammar whose rules and tokens the decoder scores."""

    framing = GRAMMAR
    default_strategy = "viterbi"

    def __init__(self, config: PCFGConfig, vocabulary: int) -> None:
        transformer = config.transformer
        longest = config.geometry.longest_canvas(transformer.max_positions)
        super().__init__(config, vocabulary, longest)
        self.config = config
        self.rules = RuleNetwork(config.rules, transformer.width, longest, config.prefix_depth)
        initialise(self, transformer)

    @profiled(RULE_SCORES)
    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> RHPCFG:
        """Return the grammar of each sentence."""
        chain_lengths = self.config.geometry.chain_lengths(canvas.lengths)
        chain, prefix = self.rules(canvas.states, chain_lengths)
        return RHPCFG(RuleScores(chain, prefix, emit), chain_lengths)


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
        counts = (tree.chain_length, block, 1 + (tree.chain_length - 1) * (block - 1))
        node, offset, index = (torch.arange(count, device=states.device) for count in counts)
        features = self.links.features(states)
        on_chain, others = features[:, 1::block], features[:, off_chain(index, block)]
        place = places(node, offset)
        vectors = (
            self.links.vectors(PARENT, on_chain),
            self.links.vectors(LEFT, others)[:, :, place],
            self.links.vectors(RIGHT, on_chain),
        )
        legal = legal_rules(node, offset, chain_lengths)
        if states.device.type in ("cuda", "meta"):  # a table of all heads would be the step's largest
            rules = self.links.mixed_rules(*vectors, legal, on_chain)
        else:
            rules = self.links.mixed(self._chain(*vectors), legal.flatten(2), on_chain).view(legal.shape)
        return rules, self._prefix(tree, others, place)

    def _chain(
        self,
        parent: Float[Tensor, "B H C E"],
        lefts: Float[Tensor, "B H C d E"],
        right: Float[Tensor, "B H C E"],
    ) -> Float[Tensor, "B H C K"]:
        """Score (parent, left, right) on the main chain; K = d · C pairs of a parent."""
        pair = parent.unsqueeze(3)
        with without_autocast(parent.device):
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
            k = left[:, :, torch.stack([place[:, rule.left] for rule in own], 1)]
            r = right[:, :, torch.stack([place[:, rule.right] for rule in own], 1)]
            scores = ((q + k) * r + q * k).sum(-1)  # B H C K
            legal = torch.ones(1, *scores.shape[2:], dtype=torch.bool, device=scores.device)
            found.append(self.links.mixed(scores, legal, features[:, place[:, offset]]))
        return torch.cat(found, -1)
