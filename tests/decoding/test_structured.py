"""Grammars and graphs behind a runtime: against every derivation, and draws against their chances."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from pcfgnat.decoding import Greedy, JointViterbi, Lookahead, MinimumRisk, Request, Sample, Strategy, Viterbi
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.runtimes.base import Sources
from pcfgnat.structures import DAG, RHPCFG, SupportTree
from pcfgnat.structures.by_length import ByLength
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.grammars import oracle, random_grammar
from tests.support.lattices import dag_oracle, random_dag
from tests.support.oracle import GrammarOracle, derivations
from tests.support.sentences import BOS, EOS

VOCABULARY = 7
WORDS = (4, 5, 6)
PENALTIES = [-1.0, 0.0, 1.0, 3.0]


class GivenTables:
    """A runtime whose groups of sources, and what they are run to, are given."""

    max_source_length = 100

    def __init__(self, *groups: tuple[list[int], ByLength]) -> None:
        self.groups, self.runs = groups, 0

    def grammars(self, sources: Sources) -> Iterator[tuple[Sequence[int], Grammars]]:
        self.runs += 1
        for group, found in self.groups:
            yield group, found.grammars(SPECIAL_TOKENS)


def alone(distribution: ByLength, count: int = 1) -> GivenTables:
    return GivenTables(([*range(count)], distribution))


def grammar_of(chain_length: int, depth: int, lengths: list[int] | None = None, seed: int = 0) -> RHPCFG:
    return random_grammar(SupportTree(chain_length, depth), lengths, vocabulary=VOCABULARY, seed=seed)


def allowed(node: int, first: int, last: int) -> tuple[int, ...]:
    return (BOS,) if node == first else (EOS,) if node == last else WORDS


def best_tokens(found: GrammarOracle) -> list[float]:
    """Score of the best token that each symbol may emit; 0 for ε."""
    last = found.tree.num_nodes - 1
    return [0.0] + [max(found.emit[n][t] for t in allowed(n, 1, last)) for n in range(1, last + 1)]


def best_by_length(found: GrammarOracle) -> dict[int, tuple[float, tuple[int, ...]]]:
    """Score and symbols of the best derivation of each length, by looking at every one."""
    tokens, best = best_tokens(found), dict[int, tuple[float, tuple[int, ...]]]()
    for derivation in derivations(found.tree):
        score = found.structure_score(derivation) + sum(tokens[node] for node in derivation.nodes)
        length = len(derivation.nodes)
        if score > best.get(length, (-math.inf,))[0]:
            best[length] = (score, derivation.nodes)
    return best


def best_sentences(found: GrammarOracle, limit: int, penalty: float) -> list[tuple[float, tuple[int, ...]]]:
    """`score / L^β` of the best tree of every sentence, best first."""
    last, best = found.tree.num_nodes - 1, dict[tuple[int, ...], float]()
    for derivation in derivations(found.tree):
        if len(derivation.nodes) <= limit:
            for ids in product(*(allowed(node, 1, last) for node in derivation.nodes)):
                value = found.score(derivation, list(ids)) / len(ids) ** penalty
                best[ids] = max(best.get(ids, -math.inf), value)
    return sorted(((value, ids) for ids, value in best.items()), reverse=True)


SHAPES = [(5, 0), (4, 1), (3, 2)]


@pytest.mark.parametrize(("chain_length", "depth"), SHAPES)
@pytest.mark.parametrize("strategy", [Viterbi(), JointViterbi()], ids=repr)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_grammars_are_searched_by_length(
    strategy: Strategy, chain_length: int, depth: int, penalty: float
) -> None:
    sizes = [chain_length, chain_length - 1, chain_length]
    grammar = grammar_of(chain_length, depth, sizes)
    limits = (6, 5, 3)
    request = Request(length_penalty=penalty, max_length=limits)
    results = strategy.decode(alone(grammar, 3), [[0]] * 3, request)
    several = strategy.decode(alone(grammar, 3), [[0]] * 3, replace(request, results=3))
    for index, (limit, (found,)) in enumerate(zip(limits, results, strict=True)):
        best = {n: pair for n, pair in best_by_length(oracle(grammar, index)).items() if n <= limit}
        wanted = max(best, key=lambda n: best[n][0] / n**penalty)
        assert found.nodes == best[wanted][1]
        assert found.score == pytest.approx(best[wanted][0], abs=1e-10)
        expected = best_sentences(oracle(grammar, index), limit, penalty)[:3]
        assert [one.ids for one in several[index]] == [ids for _, ids in expected]
        values = [one.normalised_score(penalty) for one in several[index]]
        assert values == pytest.approx([value for value, _ in expected], abs=1e-10)


@pytest.mark.parametrize(("strategy", "joint"), [(Viterbi(), False), (JointViterbi(), True)])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_graphs_are_searched_by_path_or_by_path_and_tokens(
    strategy: Strategy, joint: bool, penalty: float
) -> None:
    for seed in range(5):
        sizes, limits = [6, 4, 6], (6, 4, 3)
        graph = random_dag(sizes, VOCABULARY, seed=seed)
        request = Request(length_penalty=penalty, max_length=limits)
        for index, (found,) in enumerate(strategy.decode(alone(graph, 3), [[0]] * 3, request)):
            options = [[*allowed(v, 0, sizes[index] - 1)] for v in range(sizes[index])]
            score, path = dag_oracle(graph, index).best(options, penalty, limits[index], joint)
            assert found.nodes == path
            assert found.score == pytest.approx(score, abs=1e-10)


def walked(found: GrammarOracle, tokens: list[float], node: int = 1) -> tuple[int, ...]:
    """Take the best children at each node; `tokens` says what a child's token adds."""
    pairs = list(found.tree.children(node)) if node else []
    if not pairs:
        return (node,) if node else ()
    left, right = max(pairs, key=lambda pair: found.rule(node, *pair) + tokens[pair[0]] + tokens[pair[1]])
    return (*walked(found, tokens, left), node, *walked(found, tokens, right))


@pytest.mark.parametrize(("chain_length", "depth"), SHAPES)
def test_walks_take_the_best_children(chain_length: int, depth: int) -> None:
    seen = set()
    for seed in range(10):
        grammar = grammar_of(chain_length, depth, seed=seed)
        found, tokens = oracle(grammar, 0), best_tokens(oracle(grammar, 0))
        blind = [0.0] * len(tokens)
        for strategy, weights in ((Greedy(), blind), (Lookahead(), tokens)):
            ((one,),) = strategy.decode(alone(grammar), [[0]], Request())
            assert one.nodes == walked(found, weights)
            derivation = next(d for d in derivations(found.tree) if d.nodes == one.nodes)
            assert one.score == pytest.approx(found.score(derivation, list(one.ids)), abs=1e-10)
            assert one.ids == tuple(
                max(allowed(n, 1, grammar.support(0).num_nodes - 1), key=found.emit[n].__getitem__)
                for n in one.nodes
            )
            seen.add((type(strategy), seed, one.nodes))
    assert len({(seed, nodes) for _, seed, nodes in seen}) > 10  # the two differ


STRATEGIES = [
    Viterbi(),
    JointViterbi(),
    Lookahead(),
    Greedy(),
    Sample(),
    MinimumRisk(5),
    MinimumRisk(draw=True),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_groups_are_put_back_into_order(strategy: Strategy) -> None:
    large, small = grammar_of(4, 1, [4, 3], seed=1), grammar_of(3, 1, [3, 2], seed=2)
    runtime = GivenTables(([3, 0], large), ([1, 2], small))
    sources, limits = [[5], [6], [7], [8]], (6, 5, 2, 4)
    found = strategy.decode(runtime, sources, Request(results=2, max_length=limits))
    assert runtime.runs == 1
    for group, distribution in runtime.groups:
        own = Request(results=2, max_length=tuple(limits[index] for index in group))
        expected = strategy.decode(alone(distribution, 2), [sources[index] for index in group], own)
        assert [found[index] for index in group] == expected


@pytest.mark.parametrize("strategy", [Viterbi(), JointViterbi()], ids=repr)
@pytest.mark.parametrize("distribution", [grammar_of(5, 1, [5, 4]), random_dag([6, 5], VOCABULARY)])
def test_a_sweep_is_one_run(strategy: Strategy, distribution: ByLength) -> None:
    runtime, sources, penalties = alone(distribution, 2), [[5], [6, 6, 6]], [-50.0, 0.0, 1.0, 50.0]
    swept = strategy.sweep(runtime, sources, Request(max_length=5), penalties)
    assert runtime.runs == 1
    for index, penalty in enumerate(penalties):
        request = Request(length_penalty=penalty, max_length=5)
        assert [[own[index]] for own in swept] == strategy.decode(runtime, sources, request)
    assert [len(own[0].ids) for own in swept] == [2, 2]
    assert [len(own[-1].ids) for own in swept] == [5, 5]


def test_without_a_limit_translations_are_at_most_twice_as_long_as_their_source() -> None:
    runtime, longest = alone(grammar_of(6, 1, [6, 6]), 2), Request(length_penalty=50.0)
    found = Viterbi().decode(runtime, [[5], [5, 5, 5]], longest)
    assert [len(own[0].ids) for own in found] == [2, 6]


def probabilities(found: GrammarOracle) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
    """Chance of every tree and sentence, when each symbol emits only what it may."""
    last, chances = found.tree.num_nodes - 1, {}
    for derivation in derivations(found.tree):
        options = [allowed(node, 1, last) for node in derivation.nodes]
        pairs = zip(derivation.nodes, options, strict=True)
        sums = [sum(math.exp(found.emit[node][token]) for token in own) for node, own in pairs]
        for ids in product(*options):
            weight = math.exp(found.score(derivation, list(ids)))
            chances[derivation.nodes, ids] = weight / math.prod(sums)
    assert sum(chances.values()) == pytest.approx(1.0)
    return chances


@pytest.mark.parametrize(("chain_length", "depth"), [(4, 0), (3, 1)])
def test_samples_come_as_often_as_they_should(chain_length: int, depth: int) -> None:
    draws, grammar = 1500, grammar_of(chain_length, depth)
    enumerated = oracle(grammar, 0)
    (found,) = Sample().decode(alone(grammar), [[5]], Request(results=draws))
    counted = dict[tuple[tuple[int, ...], tuple[int, ...]], int]()
    trees = {derivation.nodes: derivation for derivation in derivations(grammar.support(0))}
    for one in found:
        counted[one.nodes, one.ids] = counted.get((one.nodes, one.ids), 0) + 1
        expected = enumerated.score(trees[one.nodes], list(one.ids))
        assert one.score == pytest.approx(expected, abs=1e-9)
    chances = probabilities(enumerated)
    assert set(counted) <= set(chances)
    for outcome, chance in chances.items():
        error = math.sqrt(chance * (1 - chance) / draws)
        assert counted.get(outcome, 0) / draws == pytest.approx(chance, abs=4.5 * error + 1e-9)


def test_a_graph_is_sampled_by_its_transitions() -> None:
    draws, graph = 1500, random_dag([5], VOCABULARY)
    (found,) = Sample().decode(alone(graph), [[5]], Request(results=draws))
    assert isinstance(graph, DAG)
    lattice = dag_oracle(graph, 0)
    counted = dict[tuple[int, ...], int]()
    for one in found:
        counted[one.nodes] = counted.get(one.nodes, 0) + 1
        assert one.score == pytest.approx(lattice.score(one.nodes, list(one.ids)), abs=1e-9)
    for path, count in counted.items():
        chance = math.exp(lattice.path_score(path))
        error = math.sqrt(chance * (1 - chance) / draws)
        assert count / draws == pytest.approx(chance, abs=4.5 * error)


def test_draws_follow_from_seed_and_sentence_alone() -> None:
    both, first = grammar_of(4, 1, [4, 4]), grammar_of(4, 1, [4])

    def draw(runtime: GivenTables, seed: int, *sources: list[int]) -> list[list[Hypothesis]]:
        return Sample().decode(runtime, sources, Request(results=6, seed=seed))

    together = draw(alone(both, 2), 0, [5, 6], [5, 7])
    assert together == draw(alone(both, 2), 0, [5, 6], [5, 7])
    assert together != draw(alone(both, 2), 1, [5, 6], [5, 7])
    assert draw(alone(first), 0, [5, 6])[0] == draw(alone(first), 0, [5, 6])[0]
    assert draw(alone(first), 0, [5, 6]) != draw(alone(first), 0, [5, 7])
