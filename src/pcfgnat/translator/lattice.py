"""Behind a translation: all nodes that could have been used, with their best tokens and rules, as a value."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from pcfgnat.grammar.lattice import LatticeScores
from pcfgnat.runtimes.base import Tables
from pcfgnat.structures import ParseTree
from pcfgnat.text import Tokenizer
from pcfgnat.translator.translator import Translator

NEGLIGIBLE = 1e-4  # rules below this are left out
Rule = tuple[int | None, int]


@dataclass(frozen=True)
class TokenChance:
    """A token that a node could emit."""

    token: int
    word: str
    probability: float


@dataclass(frozen=True)
class RuleChance:
    """A pair of children that a node could take; the left one may be missing."""

    left: int | None
    right: int
    probability: float
    chosen: bool


@dataclass(frozen=True)
class LatticeNode:
    """A symbol of the grammar, or a vertex of the graph.

    visited: whether the translation uses it; `word` is then what it emits there, otherwise its best token
    reach:   probability that a derivation uses it, whatever the tokens
    tokens:  the best ones, best first; `rules` likewise, and the chosen one in any case
    """

    node: int
    main_chain: bool
    visited: bool
    word: str
    reach: float
    tokens: tuple[TokenChance, ...]
    rules: tuple[RuleChance, ...]


@dataclass(frozen=True)
class Lattice:
    """All nodes of a sentence, in the order in which they would emit; numbered as in its parse tree."""

    source: str
    text: str
    kind: Literal["pcfg", "dag"]
    prefix_depth: int
    nodes: tuple[LatticeNode, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and for drawing."""
        return asdict(self)

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)


def lattice_of(translator: Translator, text: str, top: int = 5) -> Lattice:
    """Translate a text and return what could have been, with the `top` best tokens and rules of each node."""
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    runtime = translator.runtime
    if not isinstance(runtime, Tables):
        raise ValueError("a lattice needs a network whose nodes are joined by rules: pcfg or dag")
    translation = translator(text)
    if translation.parts:
        raise ValueError(f"a lattice needs a text of one piece, got one {translation.notes[0]}")
    ((_, grammars),) = runtime.grammars(translator.tokenizer.encode_all([text]))
    scores = grammars.lattice(0, top)
    if translation.tree is None and translation.pieces:
        raise ValueError(f"a lattice needs a strategy that finds a tree, got {translator.strategy.name}")
    if translation.tree is None:
        raise ValueError("a lattice needs a text, got an empty one")
    nodes = _nodes(scores, translation.tree, translator.tokenizer, top)
    return Lattice(text, translation.text, scores.kind, scores.prefix_depth, nodes)


def _nodes(scores: LatticeScores, tree: ParseTree, tokenizer: Tokenizer, top: int) -> tuple[LatticeNode, ...]:
    support = scores.support
    reach = scores.reach().tolist()
    emitted = {node: tree.word(i) for i, node in enumerate(tree.nodes)}
    children = {node: _named(tree, i) for i, node in enumerate(tree.nodes)}
    found = []
    for node in range(1, support.num_nodes):
        state = node - scores.first_symbol
        words = tokenizer.pieces(scores.top_ids[state].tolist())
        chances = np.exp(scores.top_log_probs[state].astype(np.float64)).tolist()
        tokens = tuple(map(TokenChance, scores.top_ids[state].tolist(), words, chances))
        found.append(
            LatticeNode(
                node,
                support.is_chain(node),
                node in emitted,
                emitted.get(node, words[0]),
                reach[node],
                tokens,
                _best_rules(_rules(scores, node), children.get(node), top),
            )
        )
    return tuple(found)


def _named(tree: ParseTree, position: int) -> Rule | None:
    """Return the children of a token's node as nodes."""
    left, right = tree.children[position]
    if right is None:
        return None
    return None if left is None else tree.nodes[left], tree.nodes[right]


def _rules(scores: LatticeScores, node: int) -> dict[Rule, float]:
    """Probabilities of the rules of a node."""
    support = scores.support
    k, offset = support.locate(node)
    start = node - offset
    if offset == support.block:
        table = np.exp(scores.chain[k].astype(np.float64))  # d C
        pairs = np.argwhere(table > NEGLIGIBLE).tolist()
        return {
            (start + left if left else None, support.chain_node(right)): float(table[left, right])
            for left, right in pairs
        }
    return {
        (start + rule.left if rule.left else None, start + rule.right): float(np.exp(scores.prefix[k, i]))
        for i, rule in enumerate(support.prefix_rules())
        if rule.parent == offset
    }


def _best_rules(rules: Mapping[Rule, float], chosen: Rule | None, top: int) -> tuple[RuleChance, ...]:
    best = sorted(rules, key=lambda rule: -rules[rule])[:top]
    if chosen is not None and chosen not in best:
        best.append(chosen)
    return tuple(RuleChance(*rule, rules.get(rule, 0.0), rule == chosen) for rule in best)
