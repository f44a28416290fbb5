"""Trees to draw."""

import math
import random
from collections.abc import Sequence
from typing import Any

from pcfgnat.structures import ParseTree, SupportTree
from tests.support.oracle import derivations

WEATHER = ("<s>", "▁Das", "▁Wetter", "▁ist", "▁heute", "▁schö", "n", ".", "</s>")


def weather(words: Sequence[str] = WEATHER) -> dict[str, Any]:
    """Nine words; ▁heute hangs below ▁schö."""
    nodes = (1, 3, 5, 7, 8, 9, 11, 15, 17)
    chances = tuple(math.log(1 - 0.1 * i) for i in range(9))
    return ParseTree(SupportTree(9, 1), nodes, tuple(range(9)), chances, chances, tuple(words)).to_dict()


def chain(words: Sequence[str]) -> dict[str, Any]:
    """A tree without prefix trees."""
    nodes = tuple(range(1, len(words) + 1))
    return ParseTree(SupportTree(len(words), 0), nodes, nodes, words=tuple(words)).to_dict()


def full() -> dict[str, Any]:
    """A complete prefix tree of depth 3."""
    nodes = (1, 2, 3, 4, 5, 6, 7, 8, 9, 17)
    return ParseTree(SupportTree(3, 3), nodes, nodes, words=tuple("0abcdefghz")).to_dict()


def some_tree(depth: int, seed: int, word_length: int = 3) -> dict[str, Any]:
    """One of all trees over a small support tree, with numbered words."""
    support = SupportTree({0: 8, 1: 6, 2: 5, 3: 3}[depth], depth)
    found = derivations(support)
    nodes = found[seed % len(found)].nodes
    logs = tuple(-0.3 * i for i in range(len(nodes)))
    words = tuple(f"▁{str(i).zfill(word_length)}" for i in range(len(nodes)))
    return ParseTree(support, nodes, nodes, logs, logs, words).to_dict()


def some_lattice(depth: int, seed: int, rules: int = 3) -> dict[str, Any]:
    """A lattice with one of all trees as its translation, and some random rules at every node."""
    support = SupportTree({0: 8, 1: 6, 2: 4, 3: 3}[depth], depth)
    found = derivations(support)
    chosen = {rule[0]: rule[1:] for rule in found[seed % len(found)].rules}
    used = set(found[seed % len(found)].nodes)
    choice = random.Random(seed)
    nodes = []
    for node in range(1, support.num_nodes):
        pairs = list(support.children(node))
        drawn = set(choice.sample(pairs, min(rules, len(pairs)))) | (
            {chosen[node]} if node in chosen else set()
        )
        word = "<s>" if node == 1 else "</s>" if node == support.num_nodes - 1 else f"▁w{node}"
        chance = choice.random()
        nodes.append(
            {
                "node": node,
                "main_chain": support.is_chain(node),
                "visited": node in used,
                "word": word,
                "reach": 1.0 if node in used else choice.random(),
                "tokens": [
                    {"token": node, "word": word, "probability": chance},
                    {"token": 0, "word": "▁other", "probability": 1 - chance},
                ],
                "rules": [
                    {
                        "left": left or None,
                        "right": right,
                        "probability": 1 / len(drawn),
                        "chosen": chosen.get(node) == (left, right),
                    }
                    for left, right in sorted(drawn)
                ],
            }
        )
    return {"source": "s", "text": "t", "kind": "pcfg", "prefix_depth": depth, "nodes": nodes}
