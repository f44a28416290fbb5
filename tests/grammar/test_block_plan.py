from collections import Counter

import pytest

from pcfgnat.grammar.block_plan import block_plan
from pcfgnat.structures import SupportTree
from tests.support.oracle import derivations


def paths(depth: int) -> Counter[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Offsets, prefix rules and left child of all paths through a block."""
    plan = block_plan(depth)
    found: Counter[tuple[tuple[int, ...], tuple[int, ...], int]] = Counter()
    waiting: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(int(x), (), ()) for x in plan.entries]
    while waiting:
        state, offsets, rules = waiting.pop()
        offsets = (*offsets, int(plan.offsets[state]))
        if offsets[-1] == 1 << depth:
            assert state == plan.bottoms[plan.lefts[state]]
            found[offsets, tuple(sorted(rules)), int(plan.lefts[state])] += 1
        for rule, following in plan.moves[plan.first[state] : plan.first[state + 1]].tolist():
            assert following > state
            waiting.append((following, offsets, (*rules, rule) if rule >= 0 else rules))
    return found


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_paths_are_derivations_each_once(depth: int) -> None:
    tree = SupportTree(3, depth)  # the block between root and last node is the middle one
    numbers = {tuple(rule): number for number, rule in enumerate(tree.prefix_rules())}
    middle, last = tree.chain_node(1), tree.chain_node(2)
    expected: Counter[tuple[tuple[int, ...], tuple[int, ...], int]] = Counter()
    for derivation in derivations(tree):
        if (1, 0, middle) in derivation.rules:
            below = [rule for rule in derivation.rules if rule[0] not in (1, middle, last)]
            rules = [numbers[node - 1, left - 1 if left else 0, right - 1] for node, left, right in below]
            (left,) = [left for node, left, _ in derivation.rules if node == middle]
            offsets = tuple(node - 1 for node in derivation.nodes[1:-1])
            expected[offsets, tuple(sorted(rules)), left - 1 if left else 0] += 1
    assert paths(depth) == expected
    assert set(expected.values()) == {1}


@pytest.mark.parametrize(("depth", "states"), [(0, 1), (1, 3), (2, 10), (3, 35)])
def test_number_of_states(depth: int, states: int) -> None:
    plan = block_plan(depth)
    assert plan.states == states
    assert plan.bottoms.tolist() == list(range(states - (1 << depth), states))
