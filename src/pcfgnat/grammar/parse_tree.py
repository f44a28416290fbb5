"""A parse tree as a value: which symbol emitted which token, below which symbol, how probably."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from pcfgnat.grammar.support_tree import SupportTree, prefix_height, prefix_subtree

Children = tuple[int | None, int | None]


class UsedRules(NamedTuple):
    """By token position: `(k, left, right)` of main-chain rules, `(k, rule)` of prefix rules."""

    chain: dict[int, tuple[int, int, int]]
    prefix: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class ParseTree:
    """One derivation. Everything is a list over token positions, so depth is no matter of recursion.

    In-order numbering makes `nodes` strictly increasing, and makes that list alone determine the tree:
    `children`, `spans` and `parent` are read off it. `rule_log_probs[i]` is the log-probability of the pair
    of children at the node of token i (0 where it has no choice), `token_log_probs[i]` that of the token.
    """

    support: SupportTree
    nodes: tuple[int, ...]
    tokens: tuple[int, ...]
    rule_log_probs: tuple[float, ...] | None = None
    token_log_probs: tuple[float, ...] | None = None
    words: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "rule_log_probs", "token_log_probs", "words"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.nodes):
                raise ValueError(f"{name} must have {len(self.nodes)} entries, one a node, got {len(values)}")
        _ = self.children  # raises where the nodes form no derivation

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def log_prob(self) -> float:
        """log P(tokens, tree | X): all rules and tokens together."""
        if self.rule_log_probs is None or self.token_log_probs is None:
            raise ValueError("this tree carries no probabilities")
        return math.fsum(self.rule_log_probs) + math.fsum(self.token_log_probs)

    @cached_property
    def children(self) -> tuple[Children, ...]:
        """For each position the positions of its left and right child."""
        _check_order(self.support, self.nodes)
        return _derive_children(self.support, self.nodes, self._located)

    @cached_property
    def _located(self) -> list[tuple[int, int]]:
        """For each position the block and the offset of its node."""
        return self.support.locate_all(self.nodes)

    @classmethod
    def derived(
        cls,
        support: SupportTree,
        nodes: tuple[int, ...],
        tokens: tuple[int, ...],
        rule_log_probs: tuple[float, ...] | None = None,
        token_log_probs: tuple[float, ...] | None = None,
    ) -> "ParseTree":
        """Return the tree of nodes that a dynamic program found: they are known to form a derivation."""
        tree = object.__new__(cls)
        tree.__dict__.update(
            support=support,
            nodes=nodes,
            tokens=tokens,
            rule_log_probs=rule_log_probs,
            token_log_probs=token_log_probs,
            words=None,
        )
        return tree

    def rules(self) -> "UsedRules":
        """Return which rules the tree uses, as indices into the tables of scores."""
        chain, prefix = {}, {}
        if self.support.prefix_depth <= 1:  # prefix trees of one node have no rules, and no children to find
            return UsedRules(_flat_rules(self.support.block, self.nodes), {})
        located = self._located
        for i, (left, right) in enumerate(self.children):
            if right is None:
                continue
            k, offset = located[i]
            left_offset = located[left][1] if left is not None else 0
            right_block, right_offset = located[right]
            if offset == self.support.block:
                chain[i] = (k, left_offset, right_block)
            else:
                prefix[i] = (k, self.support.prefix_rules().index((offset, left_offset, right_offset)))
        return UsedRules(chain, prefix)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each position the half-open range of positions that its subtree derives."""
        spans = [(i, i + 1) for i in range(len(self))]
        for i in sorted(range(len(self)), key=self._depth_first_order, reverse=True):
            left, right = self.children[i]
            start = spans[left][0] if left is not None else i
            spans[i] = (start, spans[right][1] if right is not None else i + 1)
        return tuple(spans)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """For each position its distance from the root."""
        depths = [0] * len(self)
        stack = [0]
        while stack:
            i = stack.pop()
            for child in self.children[i]:
                if child is not None:
                    depths[child] = depths[i] + 1
                    stack.append(child)
        return tuple(depths)

    @property
    def main_chain(self) -> tuple[int, ...]:
        """Positions whose token was emitted on the main chain."""
        return tuple(i for i, (_, offset) in enumerate(self._located) if offset == self.support.block)

    def with_words(self, words: Sequence[str]) -> "ParseTree":
        """Return the same tree with the text of its tokens."""
        if len(words) != len(self):
            raise ValueError(f"words must have {len(self)} entries, one a node, got {len(words)}")
        return self._with(words=tuple(words))

    def with_scores(self, rules: Sequence[float], tokens: Sequence[float]) -> "ParseTree":
        """Return the same tree with the log-probabilities of its rules and tokens."""
        return self._with(rule_log_probs=tuple(rules), token_log_probs=tuple(tokens))

    def _with(self, **fields: Any) -> "ParseTree":
        """Return a copy with other fields, and with what was derived from the nodes, which stay the same."""
        tree = object.__new__(type(self))
        tree.__dict__.update(self.__dict__, **fields)
        return tree

    def scored(self, chain: Any, prefix: Any, tokens: Sequence[float]) -> "ParseTree":
        """Return the same tree with the log-probabilities of its rules, looked up in a sentence's tables.

        They may be tensors or arrays, `[C, d, C]` and `[C, R]`; `tokens` are log-probabilities of tokens.
        """
        used, rules = self.rules(), [0.0] * len(self)
        for table, found in ((chain, used.chain), (prefix, used.prefix)):
            if found:
                where = tuple(map(list, zip(*found.values(), strict=True)))  # one look-up for all of a kind
                for position, score in zip(found, table[where].tolist(), strict=True):
                    rules[position] = score
        return self.with_scores(rules, tokens)

    def _depth_first_order(self, position: int) -> int:
        return self.depths[position]

    def word(self, position: int) -> str:
        """Text of a token: its word, or its id where no words are known."""
        return self.words[position] if self.words is not None else str(self.tokens[position])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON and for drawing."""
        chain = set(self.main_chain)
        rows = []
        for i, node in enumerate(self.nodes):
            left, right = self.children[i]
            row: dict[str, Any] = {
                "node": node,
                "token": self.tokens[i],
                "span": list(self.spans[i]),
                "left": left,
                "right": right,
                "main_chain": i in chain,
            }
            if self.words is not None:
                row["word"] = self.words[i]
            if self.rule_log_probs is not None:
                row["rule_log_prob"] = self.rule_log_probs[i]
            if self.token_log_probs is not None:
                row["token_log_prob"] = self.token_log_probs[i]
            rows.append(row)
        return {
            "chain_length": self.support.chain_length,
            "prefix_depth": self.support.prefix_depth,
            "nodes": rows,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ParseTree":
        """Read what `to_dict` wrote; raise an error for anything that is not a tree."""
        try:
            support = SupportTree(_whole(data["chain_length"]), _whole(data["prefix_depth"]))
            rows = list(data["nodes"])
            tree = cls(
                support,
                nodes=tuple(_whole(row["node"]) for row in rows),
                tokens=tuple(_whole(row["token"]) for row in rows),
                rule_log_probs=_column(rows, "rule_log_prob", float),
                token_log_probs=_column(rows, "token_log_prob", float),
                words=_column(rows, "word", str),
            )
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(
                f"a tree needs chain_length, prefix_depth and nodes with node and token: {error}"
            ) from error
        for i, row in enumerate(rows):
            expected = (tree.children[i], list(tree.spans[i]))
            given = ((row.get("left"), row.get("right")), row.get("span"))
            if "span" in row and given != expected:
                raise ValueError(
                    f"node {row['node']} must have children {expected[0]} and span {expected[1]}, got {given}"
                )
        return tree

    def to_json(self) -> str:
        """One line of JSON; impossible rules are null, as JSON has no infinity."""
        data = self.to_dict()
        for row in data["nodes"]:
            for name in ("rule_log_prob", "token_log_prob"):
                if name in row and not math.isfinite(row[name]):
                    row[name] = None
        return json.dumps(data, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "ParseTree":
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
        except RecursionError as error:
            raise ValueError("a tree must be JSON of a few levels, got too many") from error
        if not isinstance(data, dict):
            raise ValueError(f"a tree must be a JSON object, got {type(data).__name__}")
        return cls.from_dict(data)

    def to_brackets(self) -> str:
        """Bracket notation, `(V1 You (V5 (V3 are (V4 gonna)) need …))`, as nltk.Tree reads it.

        A left child stands before its parent's word, a right child after it. Brackets inside words become
        -LRB- and -RRB- as in the Penn Treebank, and white space becomes ␣.
        """
        pieces: list[str] = []
        stack: list[int | str] = [0]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                pieces.append(item)
                continue
            left, right = self.children[item]
            pieces.append(f"(V{self.nodes[item]}")
            after: list[int | str] = [_escape(self.word(item)), *([right] if right is not None else []), ")"]
            stack.extend(reversed([*([left] if left is not None else []), *after]))
        return " ".join(pieces).replace(" )", ")")

    @classmethod
    def from_brackets(
        cls, text: str, prefix_depth: int, token_id: Callable[[str], int] | None = None
    ) -> "ParseTree":
        """Read bracket notation; `token_id` gives a word's id, without it the words must be ids."""
        found: list[tuple[int, str]] = []
        open_nodes: list[int] = []
        for piece in re.findall(r"\(V\d+|\(|\)|[^\s()]+", text):
            if piece == ")":
                if not open_nodes:
                    raise ValueError("bracket notation closes more brackets than it opens")
                open_nodes.pop()
            elif piece.startswith("("):
                if piece == "(":
                    raise ValueError("every bracket must open with a symbol such as (V1")
                open_nodes.append(int(piece[2:]))
            elif not open_nodes:
                raise ValueError(f"word {piece!r} stands outside the brackets")
            else:
                found.append((open_nodes[-1], _unescape(piece)))
        if open_nodes or not found:
            raise ValueError("bracket notation must close every bracket and hold a word")
        nodes, words = zip(*found, strict=True)
        chain_index = (nodes[-1] - 1) >> prefix_depth
        support = SupportTree(chain_index + 1, prefix_depth)
        if token_id is None:
            return cls(support, nodes, tuple(int(word) for word in words))
        return cls(support, nodes, tuple(token_id(word) for word in words), words=words)


def _flat_rules(block: int, nodes: tuple[int, ...]) -> dict[int, tuple[int, int, int]]:
    """Return the main-chain rules of a tree whose prefix trees have one node at most, by position."""
    found: dict[int, tuple[int, int, int]] = {}
    position, k, left, pending = 0, 0, 0, 0
    for i, node in enumerate(nodes):
        if (node - 1) % block:
            pending = 1
            continue
        following = (node - 1) // block
        if i:
            found[position] = (k, left, following)
        position, k, left, pending = i, following, pending, 0
    return found


def _check_order(support: SupportTree, nodes: tuple[int, ...]) -> None:
    if len(nodes) < support.min_length or nodes[0] != 1 or nodes[-1] != support.num_nodes - 1:
        raise ValueError(
            f"nodes must lead from root 1 to last node {support.num_nodes - 1}, got {_ends(nodes)}"
        )
    if any(left >= right for left, right in pairwise(nodes)):
        raise ValueError("nodes must be strictly increasing: they are numbered in-order")


def _derive_children(
    support: SupportTree, nodes: tuple[int, ...], located: list[tuple[int, int]]
) -> tuple[Children, ...]:
    """Find each position's children: the derivation is determined by its nodes alone."""
    left_of: list[int | None] = [None] * len(nodes)
    right_of: list[int | None] = [None] * len(nodes)
    start, previous, block = 0, None, support.block
    for i, (k, offset) in enumerate(located):
        if offset != block:
            continue
        if i > start:
            if k == support.chain_length - 1:
                raise ValueError("the last node has no prefix tree")
            left_of[i] = _derive_prefix(nodes, located, range(start, i), k, left_of, right_of)
        if previous is not None:
            right_of[previous] = i
        start, previous = i + 1, i
    return tuple(zip(left_of, right_of, strict=True))


def _derive_prefix(
    nodes: tuple[int, ...],
    located: list[tuple[int, int]],
    positions: range,
    k: int,
    left_of: list[int | None],
    right_of: list[int | None],
) -> int:
    """Fill in the children inside one prefix tree; return the position of its top."""
    if any(located[i][0] != k for i in positions):
        raise ValueError(
            f"nodes {[nodes[i] for i in positions]} must all be in the prefix tree of main-chain node {k}"
        )
    offsets = {i: located[i][1] for i in positions}

    def top_of(part: range) -> int:
        top = max(part, key=lambda i: prefix_height(offsets[i]))
        if any(offsets[i] not in prefix_subtree(offsets[top]) for i in part):
            raise ValueError(f"nodes {[nodes[i] for i in part]} have no common ancestor among them")
        return top

    whole = top_of(positions)
    pending = [(positions, whole)]
    while pending:
        part, top = pending.pop()
        before, after = range(part.start, top), range(top + 1, part.stop)
        if not after and prefix_height(offsets[top]) > 0:
            raise ValueError(f"node {nodes[top]} is an inner node of a prefix tree and needs a right child")
        for below, link in ((before, left_of), (after, right_of)):
            if below:
                link[top] = top_of(below)
                pending.append((below, top_of(below)))
    return whole


def _ends(nodes: tuple[int, ...]) -> str:
    return f"{nodes[0]} … {nodes[-1]}" if nodes else "none"


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a whole number, got {value!r}")
    return value


def _column(rows: list[Any], name: str, kind: type) -> Any:
    if not any(name in row for row in rows):
        return None
    missing = -math.inf if kind is float else ""
    return tuple(kind(missing if row[name] is None else row[name]) for row in rows)


def _escape(word: str) -> str:
    word = word.replace("(", "-LRB-").replace(")", "-RRB-")
    return re.sub(r"\s", "␣", word) or "-NONE-"


def _unescape(word: str) -> str:
    return "" if word == "-NONE-" else word.replace("-LRB-", "(").replace("-RRB-", ")").replace("␣", " ")
