"""The lattice of the DA-Transformer: a directed acyclic graph whose vertices emit one token each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pcfgnat.grammar.canvas import GRAPH
from pcfgnat.grammar.decoding import Grammars, LengthTable
from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis, SpecialTokens
from pcfgnat.grammar.support_tree import SupportTree
from pcfgnat.structures.arguments import check_alike, check_scores, check_tensor
from pcfgnat.structures.by_length import ByLength, as_float
from pcfgnat.structures.distribution import (
    Alignment,
    Padded,
    TreePosterior,
    check_lengths,
    gather_tokens,
)
from pcfgnat.structures.emissions import TensorEmissions, as_arrays
from pcfgnat.structures.ngrams import RuleUsage, rule_usage
from pcfgnat.structures.profiling import DYNAMIC_PROGRAM, profiled
from pcfgnat.structures.rhpcfg import dispatch
from pcfgnat.structures.rhpcfg.distribution import RHPCFG
from pcfgnat.structures.rhpcfg.reference import Weights, legal_chain_rules
from pcfgnat.structures.rhpcfg.scores import RuleScores
from pcfgnat.structures.semiring import NEG_INF, Semiring


@dataclass(frozen=True, eq=False)
class DAG(ByLength):
    """p(Y|X) = Σ over paths from vertex 0 to vertex `num_nodes[b] - 1`, one token a vertex.

    This is the right-heavy grammar of depth 0, where vertex v is symbol v + 1: all dynamic programs are the
    grammar's own, and every path is a right-branching parse tree.

    transitions: `[b, i, j]` log-probability of going from vertex i to vertex j > i; -inf where impossible
    emit:        `[b, i, v]` log-probability of token v at vertex i

    Entries with j ≤ i and those of vertices beyond `num_nodes[b]` are never looked at.
    """

    by_length = ("viterbi", "joint-viterbi")

    transitions: Float[Tensor, "B M M"]
    emit: Float[Tensor, "B M V"]
    num_nodes: Int[Tensor, "B"]

    def __post_init__(self) -> None:
        check_scores({"transitions": self.transitions, "emit": self.emit})
        check_tensor("num_nodes", self.num_nodes)
        shape = tuple(self.transitions.shape)
        if len(shape) != 3 or shape[1] != shape[2]:
            raise ValueError(f"transitions must have shape (B, M, M), got {shape}")
        if self.emit.dim() != 3 or tuple(self.emit.shape[:2]) != shape[:2]:
            raise ValueError(
                f"emit must have shape ({shape[0]}, {shape[1]}, V), got {tuple(self.emit.shape)}"
            )
        check_alike({"transitions": self.transitions, "emit": self.emit})
        if (device := self.num_nodes.device) != self.transitions.device:
            raise ValueError(f"num_nodes must be on {self.transitions.device} like transitions, got {device}")
        check_lengths(self.num_nodes, shape[0], low=2, high=shape[1], name="num_nodes")

    def __repr__(self) -> str:
        batch, vertices, vocabulary = self.emit.shape
        size = f"{batch} graphs of up to {vertices} vertices, vocabulary={vocabulary}"
        return f"DAG({size}, {self.emit.dtype}, {self.emit.device})"

    @property
    def tree(self) -> SupportTree:
        """Return the grammar of depth 0 that the padded batch shares."""
        return SupportTree(self.transitions.shape[1], 0)

    @property
    def inside(self) -> Bool[Tensor, "B M"]:
        """True at the vertices that belong to a sentence."""
        return torch.arange(self.emit.shape[1], device=self.emit.device) < self.num_nodes.unsqueeze(1)

    def support(self, index: int) -> SupportTree:
        """Return the grammar of depth 0 of sentence `index`, without padding."""
        return SupportTree(int(self.num_nodes[index]), 0)

    def grammar(self) -> RHPCFG:
        """Return the same distribution as a grammar of depth 0, for all questions that grammars answer."""
        emit = torch.constant_pad_nd(self.emit, (0, 0, 1, 0), value=NEG_INF)  # symbol 0 derives ε
        rules = (self.transitions.unsqueeze(2), _no_prefix_rules(self.transitions))
        return RHPCFG(RuleScores(*rules, emit), self.num_nodes)

    @profiled(DYNAMIC_PROGRAM)
    def posterior(self, target: Padded) -> "DAGPosterior":
        """p(path | X, Y)."""
        return DAGPosterior(self, target)

    def rule_usage(self) -> RuleUsage:
        """Return the probabilities of transitions and of vertices to be used, vertices as a main chain."""
        return rule_usage(
            self.tree, self.transitions.unsqueeze(2), _no_prefix_rules(self.transitions), self.num_nodes
        )

    def symbol_tokens(self, target: Padded) -> Float[Tensor, "B n N"]:
        """Return the log-probability of every target token at every symbol: ε, then the vertices."""
        return torch.constant_pad_nd(gather_tokens(self.emit, target), (0, 0, 1, 0), value=NEG_INF)

    def infeasible(self, target: Padded) -> dict[int, str]:
        """Return the targets that have probability 0, by index, and the reason."""
        reasons = {}
        for index in (~self.posterior(target).feasible).nonzero().flatten().tolist():
            length, vertices = int(target.lengths[index]), int(self.num_nodes[index])
            if 2 <= length <= vertices:
                reasons[index] = "every path uses a transition or token of probability 0"
            else:
                reasons[index] = f"{length} tokens, but {vertices} vertices emit 2 to {vertices}"
        return reasons

    def grammars(self, special: SpecialTokens | None) -> Grammars:
        """Return the graph as a grammar of depth 0, in arrays, which decodes by one of four strategies.

        - `greedy`: the most probable transition at each vertex
        - `lookahead`: transition and token of the next vertex scored together
        - `viterbi`: the best path of each length by its transitions alone, then the best length by
          `score / L^β` with tokens
        - `joint-viterbi`: the best path and tokens together, over all lengths
        """
        transitions, lengths = as_arrays(self.transitions, self.num_nodes.long())
        chain = transitions[:, :, None]
        return Grammars(
            chain,
            chain[:, :, 0, :0],
            lengths,
            GRAPH,
            TensorEmissions(self.emit, GRAPH.first_node, self.num_nodes - 1, special),
            self._tabulate,
        )

    def _tabulate(self, token_scores: Float[np.ndarray, "B m"], limit: int) -> LengthTable:
        return dispatch.best_by_length(
            self.tree,
            as_float(token_scores, like=self.emit),
            self.transitions.unsqueeze(2),
            _no_prefix_rules(self.transitions),
            self.num_nodes,
            limit,
        )

    def sample(self, generator: torch.Generator | None = None) -> list[Hypothesis]:
        """Draw a path and its tokens, from the first vertex on, whether the weights are normalised or not."""
        with torch.no_grad():
            transitions = self._fair_transitions().double()
            # exponential race: with e ~ Exp(1), argmax p/e is a draw from p
            race = torch.empty_like(transitions).exponential_(generator=generator)
            hypotheses = []
            for index, path in enumerate(self._follow(transitions - race.log())):
                chances = self.emit[index, list(path)].double().softmax(-1)
                tokens = torch.multinomial(chances, 1, generator=generator).flatten().tolist()
                hypotheses.append(self._hypothesis(index, path, tokens))
            return hypotheses

    def _fair_transitions(self) -> Float[Tensor, "B M M"]:
        """Return transitions by which a step at a time draws each path as often as its weight says."""
        grammar = self.grammar()
        if grammar.is_normalised():
            return self._legal_transitions()
        legal = legal_chain_rules(self.tree, self.num_nodes)[:, :, 0]
        return grammar.normalised().scores.chain[:, :, 0].masked_fill(~legal, NEG_INF)

    def parse_tree(self, index: int, path: Sequence[int], tokens: Sequence[int]) -> ParseTree:
        """Return the right-branching tree over these vertices and tokens, with their probabilities."""
        vertices = list(path)
        steps = self.transitions[index, vertices[:-1], vertices[1:]].tolist()
        emitted = self.emit[index, vertices, list(tokens)].tolist()
        symbols = tuple(vertex + 1 for vertex in vertices)
        return ParseTree(self.support(index), symbols, tuple(tokens), (*steps, 0.0), tuple(emitted))

    def _legal_transitions(self) -> Float[Tensor, "B M M"]:
        legal = legal_chain_rules(self.tree, self.num_nodes)[:, :, 0]
        return self.transitions.masked_fill(~legal, NEG_INF)

    def _follow(self, scores: Float[Tensor, "B M M"]) -> list[tuple[int, ...]]:
        """Go from vertex 0 to the best next vertex until the last one is reached."""
        best, following = (table.tolist() for table in scores.max(-1))
        paths = []
        for index, last in enumerate((self.num_nodes - 1).tolist()):
            path = [0]
            while (vertex := path[-1]) != last:
                if not best[index][vertex] > NEG_INF:  # NaN is no way on either
                    raise ValueError(
                        f"vertex {vertex} of sentence {index} must have a successor of non-zero probability"
                    )
                path.append(following[index][vertex])
            paths.append(tuple(path))
        return paths

    def _hypothesis(self, index: int, path: tuple[int, ...], tokens: list[int]) -> Hypothesis:
        tree = self.parse_tree(index, path, tokens)
        return Hypothesis(tuple(tokens), tree.log_prob, path, tree)


class DAGPosterior(TreePosterior):
    """p(path | X, Y) of a lattice."""

    def __init__(self, lattice: DAG, target: Padded) -> None:
        tokens = gather_tokens(lattice.emit, target).masked_fill(~lattice.inside.unsqueeze(2), NEG_INF)
        super().__init__(target, tokens, lattice.transitions)
        self.lattice = lattice

    def _total(self, semiring: Semiring, weights: tuple[Tensor, ...]) -> Tensor:
        return dispatch.total(semiring, self._problem(weights))

    def _problem(self, weights: tuple[Tensor, ...]) -> Weights:
        tokens, transitions = weights
        return Weights(
            self.lattice.tree,
            torch.constant_pad_nd(tokens, (0, 0, 1, 0), value=NEG_INF),  # symbol 0 derives ε
            transitions.unsqueeze(2),
            _no_prefix_rules(transitions),
            self.lattice.num_nodes,
            self.target.lengths.to(self.lattice.num_nodes),
        )

    @profiled(DYNAMIC_PROGRAM)
    def argmax(self) -> Alignment:
        """Return the best path of each target, as the position that each vertex emits."""
        found = dispatch.best(self._problem(self._weights))
        return Alignment(found[0][:, 1:], found[1]) if found else super().argmax()

    def transition_marginals(self) -> Float[Tensor, "B M M"]:
        """Return the logs of the posterior probabilities of transitions; differentiable."""
        return self._marginals()[1].log()

    def __repr__(self) -> str:
        return f"DAGPosterior({self.lattice!r}, {self.target!r})"

    def _parse_tree(self, index: int, nodes: tuple[int, ...], tokens: list[int]) -> ParseTree:
        return self.lattice.parse_tree(index, nodes, tokens)


def _no_prefix_rules(transitions: Float[Tensor, "B M M"]) -> Float[Tensor, "B M 0"]:
    return transitions.new_zeros(*transitions.shape[:2], 0)
