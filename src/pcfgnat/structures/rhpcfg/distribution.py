"""The distribution over sentences that a right-heavy grammar defines."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.grammar.derivation import Chooser, derive, greedy_choice, lookahead_choice
from pcfgnat.grammar.lengths import LengthChooser, choose_lengths, trace
from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis, Search
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.by_length import ByLength
from pcfgnat.structures.distribution import (
    Alignment,
    Padded,
    TreePosterior,
    best_tokens,
    check_lengths,
    gather_tokens,
)
from pcfgnat.structures.rhpcfg import dispatch
from pcfgnat.structures.rhpcfg.dispatch import LengthTable
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

    def posterior(self, target: Padded) -> "RHPCFGPosterior":
        """p(tree | X, Y)."""
        return RHPCFGPosterior(self, target)

    def num_derivations(self, target: Padded) -> Float[Tensor, "B"]:
        """Count the derivations of each target that have non-zero probability (float64, exact up to 2^53)."""
        return self.posterior(target).num_derivations()

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

    def _decode(self, search: Search, choose: LengthChooser) -> list[list[Hypothesis]]:
        """Decode every sentence; `choose` picks from the scores of all lengths the indices of some."""
        search.require("viterbi", "greedy", "lookahead")
        with torch.no_grad():
            if search.strategy != "viterbi":
                choice = greedy_choice if search.strategy == "greedy" else lookahead_choice
                wanted = len(choose([0.0], [1]))
                return [[hypothesis] * wanted for hypothesis in self._derive(search, choice)]
            table, tokens = self.viterbi_table(search)
            chosen = choose_lengths(table.scores.tolist(), self._limits(search), choose)
            return [
                [self._hypothesis(index, nodes, tokens[index, list(nodes)].tolist()) for nodes in found]
                for index, found in enumerate(trace(table, chosen))
            ]

    def viterbi_table(self, search: Search) -> tuple[LengthTable, Int[Tensor, "B m"]]:
        """Return the best derivation of every length, for any penalty to pick from, and all best tokens."""
        scores = self.scores
        token_scores, tokens = best_tokens(scores.emit, search.special_tokens, 1, self._last_symbols())
        limit = max(self._limits(search), default=2)
        table = dispatch.best_by_length(
            self.tree, token_scores, scores.chain, scores.prefix, self.chain_lengths, limit
        )
        return table, tokens

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

    def _derive(self, search: Search, choice: Chooser) -> list[Hypothesis]:
        token_scores, tokens = best_tokens(self.scores.emit, search.special_tokens, 1, self._last_symbols())
        hypotheses = []
        for index in self._batch():
            nodes = self._nodes(index, choice, token_scores[index])
            hypotheses.append(self._hypothesis(index, nodes, tokens[index, list(nodes)].tolist()))
        return hypotheses

    def _nodes(
        self, index: int, choice: Chooser, token_scores: Float[Tensor, "m"] | None = None
    ) -> tuple[int, ...]:
        """Derive from the root of a sentence; return the symbols used."""
        chain, prefix = _array(self.scores.chain[index]), _array(self.scores.prefix[index])
        tokens = None if token_scores is None else _array(token_scores)
        try:
            return derive(chain, prefix, self.support(index), choice, tokens)
        except ValueError as error:
            raise ValueError(f"sentence {index}: {error}") from error

    def _hypothesis(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> Hypothesis:
        tree = self.parse_tree(index, nodes, tokens)
        return Hypothesis(tuple(tokens), tree.log_prob, nodes, tree)

    def _limits(self, search: Search) -> list[int]:
        depth = self.tree.prefix_depth
        return search.limits([SupportTree(n, depth).max_length for n in self.chain_lengths.tolist()])

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


def _array(tensor: Tensor) -> np.ndarray:
    """Copy to numpy, which has no number shorter than 32 bits that torch has."""
    return tensor.detach().to("cpu", torch.promote_types(tensor.dtype, torch.float32)).numpy()
