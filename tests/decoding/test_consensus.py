"""Minimum Bayes risk against enumeration: all sentences, their chances, and what is expected of them."""

import math
from collections import Counter
from itertools import product

import pytest

from pcfgnat.decoding import DecodingError, MinimumRisk, Request, Viterbi
from pcfgnat.grammar.consensus import ngrams
from pcfgnat.structures import SupportTree
from tests.decoding.test_structured import VOCABULARY, alone, best_sentences, grammar_of
from tests.support.grammars import oracle, random_grammar
from tests.support.lattices import random_dag
from tests.support.oracle import GrammarOracle, derivations

ORDER = 2


def expectations(found: GrammarOracle) -> tuple[Counter[tuple[int, ...]], float]:
    """Expected n-grams between bos and eos, and the expected number of those tokens."""
    counts, length = Counter[tuple[int, ...]](), 0.0
    for derivation in derivations(found.tree):
        inner = derivation.nodes[1:-1]
        structure = found.structure_score(derivation)
        length += math.exp(structure) * len(inner)
        for ids in product(range(VOCABULARY), repeat=len(inner)):
            emitted = sum(found.emit[node][token] for node, token in zip(inner, ids, strict=True))
            for n in range(1, ORDER + 1):
                for window in ngrams(ids, n):
                    counts[window] += math.exp(structure + emitted)  # type: ignore[assignment]
    return counts, length


def bleu(ids: tuple[int, ...], counts: Counter[tuple[int, ...]], length: float) -> float:
    logs = []
    for n in range(1, ORDER + 1):
        own = Counter(ngrams(ids, n))
        if own:
            logs.append(math.log(sum(min(k, counts[window]) for window, k in own.items()) / own.total()))
    return math.exp(sum(logs) / len(logs) + min(0.0, 1 - length / len(ids))) if logs else 0.0


@pytest.mark.parametrize(("chain_length", "depth"), [(4, 0), (3, 1)])
def test_the_candidate_that_agrees_best_comes_first(chain_length: int, depth: int) -> None:
    changed = 0
    for seed in range(4):
        grammar = grammar_of(chain_length, depth, seed=seed)
        found, request = oracle(grammar, 0), Request(results=6, max_length=9)
        candidates = [ids for _, ids in best_sentences(found, 9, 1.0)[:6]]
        counts, length = expectations(found)
        expected = sorted(candidates, key=lambda ids: -bleu(ids[1:-1], counts, length))
        (ranked,) = MinimumRisk(size=6, order=ORDER).decode(alone(grammar), [[5]], request)
        assert [one.ids for one in ranked] == expected
        ((best,),) = Viterbi().decode(alone(grammar), [[5]], Request(max_length=9))
        changed += best.ids != ranked[0].ids
    assert changed  # it is not Viterbi under another name


def test_a_graph_is_ranked_like_its_grammar() -> None:
    changed = 0
    for seed in range(4):
        graph, request = random_dag([6], VOCABULARY, seed=seed), Request(results=6, max_length=6)
        by_graph, by_grammar = (
            MinimumRisk(size=6, order=ORDER).decode(alone(one), [[5]], request)[0]
            for one in (graph, graph.grammar())
        )
        assert [one.ids for one in by_graph] == [one.ids for one in by_grammar]
        counts, length = expectations(oracle(graph.grammar(), 0))
        values = [bleu(one.ids[1:-1], counts, length) for one in by_graph]
        assert values == pytest.approx(sorted(values, reverse=True))
        changed += max(one.score / len(one.ids) for one in by_graph) > by_graph[0].score / len(
            by_graph[0].ids
        )
    assert changed


def test_candidates_may_be_drawn() -> None:
    grammar = random_grammar(SupportTree(4, 0), vocabulary=VOCABULARY, scale=1.0)
    counts, length = expectations(oracle(grammar, 0))
    request = Request(results=50, seed=3)
    (ranked,) = MinimumRisk(size=30, order=ORDER, draw=True).decode(alone(grammar), [[5]], request)
    values = [bleu(one.ids[1:-1], counts, length) for one in ranked]
    assert values == sorted(values, reverse=True)
    assert len({one.ids for one in ranked}) == len(ranked) > 5
    (other,) = MinimumRisk(size=30, draw=True).decode(alone(grammar), [[5]], Request(results=50, seed=4))
    assert {one.ids for one in other} != {one.ids for one in ranked}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"order": 0}, "order must be in 1 … 8, got 0"),
        ({"order": 9}, "order must be in 1 … 8, got 9"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, int], message: str) -> None:
    with pytest.raises(DecodingError, match=message):
        MinimumRisk(**settings)  # type: ignore[arg-type]
