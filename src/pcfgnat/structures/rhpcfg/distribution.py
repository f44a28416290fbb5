"""The distribution over sentences that a right-heavy grammar defines."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.canvas import GRAMMAR
from pcfgnat.grammar.decoding import Grammars, LengthTable
from pcfgnat.grammar.derivation import Chooser, derive
from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis, SpecialTokens
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.arguments import check_tensor
from pcfgnat.structures.by_length import ByLength, as_float
from pcfgnat.structures.distribution import (
    Alignment,
    Padded,
    TreePosterior,
    check_lengths,
    gather_tokens,
)
from pcfgnat.structures.emissions import TensorEmissions, as_array, as_arrays
from pcfgnat.structures.ngrams import RuleUsage, rule_usage
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.rhpcfg import dispatch
from pcfgnat.structures.rhpcfg.reference import Weights, inner_nodes, legal_chain_rules, used_symbols
from pcfgnat.structures.rhpcfg.scores import RuleMarginals, RuleScores
from pcfgnat.structures.rhpcfg.total import FreeWeights, expected_uses, totals
from pcfgnat.structures.semiring import NEG_INF, Semiring, logsumexp


class RHPCFG(ByLength):
    """p(Y|X) = Σ over parse trees (paper, section 3.3), for a batch of grammars of different sizes.

    Sentence b uses the first `chain_lengths[b]` main-chain nodes; the last of them derives the last token.
    Decoding: `viterbi` (best tree and tokens over all lengths), `greedy` or `lookahead`.
    """

    by_length = ("viterbi",)

    def __init__(self, scores: RuleScores, chain_lengths: Int[Tensor, "B"]) -> None:
        check_tensor("chain_lengths", chain_lengths)
        check_lengths(
            chain_lengths, len(scores.chain), low=2, high=scores.tree.chain_length, name="chain_lengths"
        )
        self.scores = scores
        self.tree = scores.tree
        self.chain_lengths = chain_lengths.to(scores.chain.device, torch.int64)

    def __repr__(self) -> str:
        return f"RHPCFG({self.scores!r})"

    def support(self, index: int) -> SupportTree:
        """Return the support tree of sentence `index`, without padding."""
        return SupportTree(int(self.chain_lengths[index]), self.tree.prefix_depth)

    @profiled(DYNAMIC_PROGRAM)
    def posterior(self, target: Padded) -> "RHPCFGPosterior":
        """p(tree | X, Y)."""
        return RHPCFGPosterior(self, target)

    def num_derivations(self, target: Padded) -> Float[Tensor, "B"]:
        """Count the derivations of each target that have non-zero probability (float64, exact up to 2^53)."""
        return self.posterior(target).num_derivations()

    def rule_usage(self) -> RuleUsage:
        """Return the probabilities of rules and of symbols to be used."""
        return rule_usage(self.tree, self.scores.chain, self.scores.prefix, self.chain_lengths)

    def symbol_tokens(self, target: Padded) -> Float[Tensor, "B m N"]:
        """Return the log-probability of every target token at every symbol."""
        return gather_tokens(self.scores.emit, target)

    def infeasible(self, target: Padded) -> dict[int, str]:
        """Return the targets that have probability 0, by index, and the reason."""
        reasons = {}
        for index in (~self.posterior(target).feasible).nonzero().flatten().tolist():
            length, support = int(target.lengths[index]), self.support(index)
            if support.min_length <= length <= support.max_length:
                reasons[index] = "every derivation uses a rule or token of probability 0"
            else:
                reasons[index] = (
                    f"{length} tokens, but {support.chain_length} main-chain nodes "
                    f"of depth {support.prefix_depth} derive {support.min_length} to {support.max_length}"
                )
        return reasons

    def grammars(self, special: SpecialTokens | None) -> Grammars:
        """Return rules and tokens as arrays, which decode by `greedy`, `lookahead` or `viterbi`.

        Rules leave the device together; tokens follow when they are asked for, tables of lengths stay there.
        """
        scores, last = self.scores, self._last_symbols()
        chain, prefix, lengths = as_arrays(scores.chain, scores.prefix, self.chain_lengths)
        return Grammars(
            chain,
            prefix,
            lengths,
            GRAMMAR,
            TensorEmissions(scores.emit, GRAMMAR.first_node, last, special),
            self._tabulate,
        )

    def _tabulate(self, token_scores: Float[np.ndarray, "B m"], limit: int) -> LengthTable:
        scores = self.scores
        tokens = as_float(token_scores, like=scores.emit)
        return dispatch.best_by_length(
            self.tree, tokens, scores.chain, scores.prefix, self.chain_lengths, limit
        )

    def sample(self, generator: torch.Generator | None = None) -> list[Hypothesis]:
        """Draw a tree and its tokens from the grammar, from the root down, normalised or not."""
        return [drawn for (drawn,) in self.samples(1, generator)]

    def samples(self, count: int, generator: torch.Generator | None = None) -> list[list[Hypothesis]]:
        """Draw several trees and their tokens for every sentence, independent of each other."""
        with torch.no_grad():
            source = self if self.is_normalised() else self.normalised()
            choice = _sample_choice(generator)
            found: list[list[Hypothesis]] = [[] for _ in self._batch()]
            for _ in range(count):
                trees = [source._nodes(index, choice) for index in self._batch()]
                for index, nodes in enumerate(trees):
                    weights = self.scores.emit[index, list(nodes)].double().softmax(-1)
                    tokens = torch.multinomial(weights, 1, generator=generator).flatten().tolist()
                    found[index].append(self._hypothesis(index, nodes, tokens))
            return found

    def log_normaliser(self) -> Float[Tensor, "B"]:
        """Return the log of the weight of all derivations of all sentences: 0 for a normalised grammar."""
        return totals(self._free()).total

    def is_normalised(self, tolerance: float = 1e-3) -> bool:
        """Whether the rules of every node, and the tokens of every symbol, have a total probability of 1.

        The tolerance is on the log of each total; what no derivation can use does not count.
        """
        tree, free = self.tree, self._free()
        node = torch.arange(tree.chain_length, device=free.chain.device)
        legal = torch.where(legal_chain_rules(tree, self.chain_lengths), free.chain, NEG_INF)
        rows = [
            (logsumexp(legal.flatten(2), -1), node < self.chain_lengths.unsqueeze(1) - 1),
            (free.symbols, used_symbols(tree, self.chain_lengths)),
        ]
        for parent in {rule.parent for rule in tree.prefix_rules()}:
            own = [number for number, rule in enumerate(tree.prefix_rules()) if rule.parent == parent]
            rows.append((logsumexp(free.prefix[..., own], -1), inner_nodes(tree, self.chain_lengths)))
        return all(bool(((total.abs() <= tolerance) | ~used).all()) for total, used in rows)

    def normalised(self) -> "RHPCFG":
        """Return the normalised grammar of the same distribution over derivations and tokens.

        Every derivation keeps its share of the total weight, which no normalisation node by node achieves.
        A grammar without any derivation has no such distribution and keeps its rules.
        """
        free = self._free()
        found = totals(free)
        possible = (found.total > NEG_INF)[:, None, None]
        chain = torch.where(possible.unsqueeze(3), found.chain, free.chain)
        prefix = torch.where(possible, found.prefix, free.prefix)
        total = torch.where(free.symbols == NEG_INF, 0.0, free.symbols).unsqueeze(2)
        return RHPCFG(RuleScores(chain, prefix, self._used_emit() - total), self.chain_lengths)

    def entropy(self) -> Float[Tensor, "B"]:
        """Return the entropy in nats of derivation and tokens together; differentiable."""
        return self.cross_entropy(self)

    def cross_entropy(self, other: "RHPCFG") -> Float[Tensor, "B"]:
        """Return the mean of -log q over derivations and tokens of this grammar, q being the other's.

        Both need the same support trees and vocabulary, and may be unnormalised; differentiable in both;
        infinite where this grammar uses what is impossible in the other.
        """
        self._check_comparable(other)
        mine, theirs = self._free(), other._free()
        chain, prefix, symbols = expected_uses(mine)
        total = torch.where(mine.symbols == NEG_INF, 0.0, mine.symbols).unsqueeze(2)
        tokens = symbols.unsqueeze(2) * (self._used_emit() - total).exp()
        pairs = ((chain, theirs.chain), (prefix, theirs.prefix), (tokens, other.scores.emit))
        expected = [_weighted(uses, log_weights) for uses, log_weights in pairs]
        return totals(theirs).total - torch.stack(expected).sum(0)

    def kl_divergence(self, other: "RHPCFG") -> Float[Tensor, "B"]:
        """Return KL(this || other) of derivation and tokens together, at least that of the sentences."""
        return self.cross_entropy(other) - self.entropy()

    def _free(self) -> FreeWeights:
        scores, symbols = self.scores, logsumexp(self._used_emit(), -1)
        return FreeWeights(self.tree, scores.chain, scores.prefix, symbols, self.chain_lengths)

    def _used_emit(self) -> Float[Tensor, "B m V"]:
        """Return the tokens of symbols that a derivation can use; others may hold anything, even NaN."""
        used = used_symbols(self.tree, self.chain_lengths).unsqueeze(2)
        return torch.where(used, self.scores.emit, NEG_INF)

    def _check_comparable(self, other: "RHPCFG") -> None:
        mine, theirs = self.scores.emit.shape, other.scores.emit.shape
        if self.tree != other.tree or mine != theirs or not self.chain_lengths.equal(other.chain_lengths):
            raise ValueError(
                f"grammars must share support trees and vocabulary, got {self!r} and {other!r} "
                f"with chain lengths {self.chain_lengths.tolist()} and {other.chain_lengths.tolist()}"
            )

    def parse_tree(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> ParseTree:
        """Return the tree over these symbols and tokens, with this grammar's probabilities."""
        scores, tree = self.scores, ParseTree(self.support(index), nodes, tuple(tokens))
        emitted = scores.emit[index, list(nodes), tokens].tolist()
        return tree.scored(scores.chain[index], scores.prefix[index], emitted)

    def _nodes(self, index: int, choice: Chooser) -> tuple[int, ...]:
        """Derive from the root of a sentence; return the symbols used."""
        chain, prefix = as_array(self.scores.chain[index]), as_array(self.scores.prefix[index])
        try:
            return derive(chain, prefix, self.support(index), choice)
        except ValueError as error:
            raise ValueError(f"sentence {index}: {error}") from error

    def _hypothesis(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> Hypothesis:
        tree = self.parse_tree(index, nodes, tokens)
        return Hypothesis(tuple(tokens), tree.log_prob, nodes, tree)

    def _batch(self) -> range:
        return range(len(self.chain_lengths))

    def _last_symbols(self) -> Int[Tensor, "B"]:
        return 1 + (self.chain_lengths - 1) * self.tree.block


class RHPCFGPosterior(TreePosterior):
    """p(tree | X, Y) of a right-heavy grammar."""

    def __init__(self, grammar: RHPCFG, target: Padded) -> None:
        scores = grammar.scores
        super().__init__(target, gather_tokens(scores.emit, target), scores.chain, scores.prefix)
        self.grammar = grammar

    def _total(self, semiring: Semiring, weights: tuple[Tensor, ...]) -> Tensor:
        return dispatch.total(semiring, self._problem(weights))

    def _problem(self, weights: tuple[Tensor, ...]) -> Weights:
        tokens, chain, prefix = weights
        grammar = self.grammar
        lengths = self.target.lengths.to(grammar.chain_lengths)
        return Weights(grammar.tree, tokens, chain, prefix, grammar.chain_lengths, lengths)

    @profiled(DYNAMIC_PROGRAM)
    def argmax(self) -> Alignment:
        """Return the best tree of each target, as the position that each symbol emits."""
        found = dispatch.best(self._problem(self._weights))
        return Alignment(*found) if found else super().argmax()

    def rule_marginals(self) -> RuleMarginals:
        """Return the logs of the posterior probabilities of rules and tokens; differentiable."""
        tokens, chain, prefix = (part.log() for part in self._marginals())
        return RuleMarginals(chain, prefix, tokens)

    def __repr__(self) -> str:
        return f"RHPCFGPosterior({self.grammar!r}, {self.target!r})"

    def _parse_tree(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> ParseTree:
        return self.grammar.parse_tree(index, nodes, tokens)


def _weighted(uses: Float[Tensor, "B ..."], log_weights: Float[Tensor, "B ..."]) -> Float[Tensor, "B"]:
    """Return Σ uses · log_weights of each sentence; what is not used counts for nothing, even if -inf."""
    products = torch.where(uses > 0, uses, 0.0) * torch.where(uses > 0, log_weights, 0.0)
    return products.flatten(1).sum(1)


def _sample_choice(generator: torch.Generator | None) -> Chooser:
    """Choose a rule by its probability."""
    device = torch.device("cpu") if generator is None else generator.device

    def choose(rules: Float[np.ndarray, "r"], _children: Float[np.ndarray, "r"]) -> int:
        chances = torch.from_numpy(rules).to(device).double().exp()
        return int(torch.multinomial(chances, 1, generator=generator))

    return choose
