"""The support tree against the grammar's table, written out by hand for small sizes."""

import pytest

from pcfgnat.grammar.prefix_plan import prefix_plan
from pcfgnat.grammar.support_tree import prefix_polynomial
from pcfgnat.structures import PrefixRule, SupportTree
from tests.support.oracle import derivations


def test_numbering_of_the_papers_example() -> None:
    tree = SupportTree(chain_length=4, prefix_depth=2)  # Lx = 3, λ = 1, l = 2
    assert tree.num_nodes == 3 * 4 + 2
    assert [tree.chain_node(k) for k in range(4)] == [1, 5, 9, 13]
    assert tree.chain_node(3) == tree.num_nodes - 1


@pytest.mark.parametrize("ratio", [1, 2, 4])
@pytest.mark.parametrize("source_length", [1, 3, 25])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_number_of_symbols_follows_the_formula(ratio: int, source_length: int, depth: int) -> None:
    tree = SupportTree(ratio * source_length + 1, depth)
    assert tree.num_nodes == ratio * source_length * 2**depth + 2


def test_children_at_depth_two() -> None:
    tree = SupportTree(4, 2)
    children = {node: list(tree.children(node)) for node in range(tree.num_nodes)}
    assert children[0] == []
    assert children[1] == [(0, 5), (0, 9), (0, 13)]
    assert children[2] == children[4] == []
    assert children[3] == [(0, 4), (2, 4)]
    assert children[5] == [(left, right) for left in (0, 2, 3, 4) for right in (9, 13)]
    assert children[9] == [(0, 13), (6, 13), (7, 13), (8, 13)]
    assert children[13] == []


def test_prefix_rules_at_depth_three() -> None:
    rules = SupportTree(2, 3).prefix_rules()
    assert rules == tuple(sorted(rules))
    inner = [(2, left, 3) for left in (0, 1)] + [(6, left, 7) for left in (0, 5)]
    top = [(4, left, right) for left in (0, 1, 2, 3) for right in (5, 6, 7)]
    assert set(rules) == {PrefixRule(*rule) for rule in inner + top}


def test_depths_without_prefix_rules() -> None:
    assert SupportTree(3, 0).prefix_rules() == ()
    assert SupportTree(3, 1).prefix_rules() == ()


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_locate_inverts_the_numbering(depth: int) -> None:
    tree = SupportTree(4, depth)
    for node in range(1, tree.num_nodes):
        k, offset = tree.locate(node)
        assert node == tree.chain_node(k) - tree.block + offset
        assert tree.is_chain(node) == (offset == tree.block)
    assert tree.locate(1) == (0, tree.block)


@pytest.mark.parametrize(("length", "depth"), [(2, 0), (5, 0), (2, 1), (5, 1), (5, 2), (4, 3)])
def test_counts_agree_with_enumeration(length: int, depth: int) -> None:
    tree = SupportTree(length, depth)
    found = derivations(tree)
    for tokens in range(tree.max_length + 3):
        assert tree.num_derivations(tokens) == sum(len(d.nodes) == tokens for d in found)
    assert max(len(d.nodes) for d in found) == tree.max_length
    assert min(len(d.nodes) for d in found) == tree.min_length


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_derivations_use_increasing_symbols_and_at_most_d_tokens_per_main_node(depth: int) -> None:
    tree = SupportTree(4, depth)
    seen = set()
    for derivation in derivations(tree):
        assert list(derivation.nodes) == sorted(set(derivation.nodes))
        assert derivation.nodes not in seen  # the symbols alone determine the derivation
        seen.add(derivation.nodes)
        blocks = [tree.locate(node)[0] for node in derivation.nodes]
        assert all(blocks.count(k) <= tree.block for k in set(blocks))


def test_counts_are_exact_beyond_floating_point() -> None:
    assert SupportTree(402, 0).num_derivations(202) == __import__("math").comb(400, 200)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_prefix_plan_lists_children_before_parents(depth: int) -> None:
    plan = prefix_plan(depth)
    done = {0} | {q for q, (_, width) in enumerate(plan.states) if width == 1}
    for state, rule, left, right, offset, left_width in plan.splits.tolist():
        assert SupportTree(2, depth).prefix_rules()[rule] == (
            offset,
            plan.states[left, 0],
            plan.states[right, 0],
        )
        assert left in done
        assert right in done
        assert plan.states[state].tolist() == [offset, left_width + 1 + plan.states[right, 1]]
        done.add(state)
    assert done == set(range(len(plan.states)))


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_prefix_plan_holds_every_derivation_once(depth: int) -> None:
    plan = prefix_plan(depth)
    ways = [int(width < 2) for _, width in plan.states.tolist()]  # ε and leaves have one each
    for state, _, left, right, _, _ in plan.splits.tolist():
        ways[state] += ways[left] * ways[right]
    by_width = [0] * 2**depth
    for (_, width), count in zip(plan.states.tolist(), ways, strict=True):
        by_width[width] += count
    assert by_width == prefix_polynomial(depth)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 1), "chain_length must be at least 2 .* got 1"),
        ((3, -1), "prefix_depth must not be negative, got -1"),
        ((3, 17), "prefix_depth must be at most 16, got 17"),
    ],
)
def test_impossible_trees_are_refused(arguments: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SupportTree(*arguments)


def test_nodes_outside_the_tree_are_refused() -> None:
    tree = SupportTree(3, 1)
    for k in (-1, 3):
        with pytest.raises(IndexError, match=f"chain node must be in 0 … 2, got {k}"):
            tree.chain_node(k)
    for node in (0, 6):
        with pytest.raises(IndexError, match=f"node must be in 1 … 5, got {node}"):
            tree.locate(node)


def test_the_deepest_tree_is_allowed() -> None:
    assert SupportTree(2, 16).num_nodes == 2**16 + 2


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_nodes_are_located_together_as_alone(depth: int) -> None:
    support = SupportTree(4, depth)
    nodes = range(1, support.num_nodes)
    assert support.locate_all(nodes) == [support.locate(node) for node in nodes]
    assert support.locate_all([]) == []
    for wrong in (0, support.num_nodes):
        with pytest.raises(IndexError, match=f"nodes must be in 1 … {support.num_nodes - 1}, got "):
            support.locate_all([1, wrong])
