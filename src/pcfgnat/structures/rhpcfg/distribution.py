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
from pcfgnat.structures.by_length import ByLength, as_float
from pcfgnat.structures.distribution import (
    Alignment,
    Padded,
    TreePosterior,
    check_lengths,
    gather_tokens,
)
from pcfgnat.structures.emissions import TensorEmissions, as_array
from pcfgnat.structures.ngrams import RuleUsage, rule_usage, window_counts
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.rhpcfg import dispatch
from pcfgnat.structures.rhpcfg.reference import Weights
from pcfgnat.structures.rhpcfg.scores import RuleScores
from pcfgnat.structures.semiring import Semiring


class RHPCFG(ByLength):
    """p(Y|X) = Σ over parse trees (paper, section 3.3), for a batch of grammars of different sizes.

    Sentence b uses the first `chain_lengths[b]` main-chain nodes; the last of them derives the last token.
    Decoding: `viterbi` (best tree and tokens over all lengths), `greedy` or `lookahead`.
    """

    by_length = ("viterbi",)

    def __init__(self, scores: RuleScores, chain_lengths: Int[Tensor, "B"]) -> None:
        check_lengths(
            chain_lengths, len(scores.chain), low=2, high=scores.tree.chain_length, name="chain_lengths"
        )
        self.scores = scores
        self.tree = scores.tree
        self.chain_lengths = chain_lengths.to(scores.chain.device, torch.int64)

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

    def expected_ngrams(self, target: Padded, n: int) -> Float[Tensor, "B windows"]:
        """Return how often every window of n tokens of the target is expected to occur; 0 on padding."""
        return window_counts(self.rule_usage(), self.symbol_tokens(target), n)

    def expected_length(self) -> Float[Tensor, "B"]:
        """Return the expected number of tokens of a sentence, bos and eos included."""
        return self.rule_usage().expected_length

    def infeasible(self, target: Padded) -> dict[int, str]:
        """Say which targets have probability 0, and why."""
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
        """Return rules and tokens as arrays, which decode by `greedy`, `lookahead` or `viterbi`."""
        scores, last = self.scores, self._last_symbols()
        return Grammars(
            as_array(scores.chain),
            as_array(scores.prefix),
            self.chain_lengths.cpu().numpy(),
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
        """Draw a tree and its tokens from the grammar, from the root down."""
        with torch.no_grad():
            choice = _sample_choice(generator)
            trees = [self._nodes(index, choice) for index in self._batch()]
            hypotheses = []
            for index, nodes in enumerate(trees):
                weights = self.scores.emit[index, list(nodes)].double().exp()
                tokens = torch.multinomial(weights, 1, generator=generator).flatten().tolist()
                hypotheses.append(self._hypothesis(index, nodes, tokens))
            return hypotheses

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

    def _parse_tree(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> ParseTree:
        return self.grammar.parse_tree(index, nodes, tokens)


def _sample_choice(generator: torch.Generator | None) -> Chooser:
    """Choose a rule by its probability."""
    device = torch.device("cpu") if generator is None else generator.device

    def choose(rules: Float[np.ndarray, "r"], _children: Float[np.ndarray, "r"]) -> int:
        chances = torch.from_numpy(rules).to(device).double().exp()
        return int(torch.multinomial(chances, 1, generator=generator))

    return choose
