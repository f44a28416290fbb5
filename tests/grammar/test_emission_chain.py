"""Expected n-grams from arrays, against those of torch, and by enumeration."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest

from pcfgnat.grammar.consensus import ngrams
from pcfgnat.grammar.emission_chain import emission_chain
from pcfgnat.structures import SupportTree
from pcfgnat.structures.ngrams import candidate_counts
from tests.support.constrained import emissions, rules_of
from tests.support.grammars import oracle, random_grammar
from tests.support.oracle import derivations


@pytest.mark.parametrize(("depth", "size"), [(0, 9), (1, 7), (2, 5), (3, 4)])
def test_counts_equal_those_with_gradients(depth: int, size: int) -> None:
    lengths = [size, 2, size - 1]
    grammar = random_grammar(SupportTree(size, depth), lengths, vocabulary=6, scale=2.0)
    candidates = [[0, 1, 2, 3, 1, 2], [5], [], [2, 2, 2, 2]]
    expected = [candidate_counts(grammar, [candidates] * 3, n) for n in (1, 2, 3, 4)]
    for index in range(3):
        chain = emission_chain(rules_of(grammar, index))
        assert chain.expected_length == pytest.approx(float(grammar.expected_length()[index]) - 2, abs=1e-12)
        table = emissions(grammar, index)
        found = chain.counts(candidates, 4, lambda tokens, own=table: own[:, tokens])  # type: ignore[misc]
        for number, candidate in enumerate(candidates):
            for n in (1, 2, 3, 4):
                assert len(found[number][n - 1]) == max(len(candidate) - n + 1, 0)
                wanted = expected[n - 1][index][number].tolist()
                assert found[number][n - 1].tolist() == pytest.approx(wanted, abs=1e-14)


def test_counts_equal_enumeration() -> None:
    support = SupportTree(4, 1)
    grammar = random_grammar(support, vocabulary=3, scale=2.0)
    exact, counted = oracle(grammar, 0), Counter[tuple[int, ...]]()
    for derivation in derivations(support):
        inner = derivation.nodes[1:-1]
        for ids in product(range(3), repeat=len(inner)):
            emitted = sum(exact.emit[node][token] for node, token in zip(inner, ids, strict=True))
            chance = math.exp(exact.structure_score(derivation) + emitted)
            for n in (1, 2, 3):
                for window in ngrams(ids, n):
                    counted[window] += chance  # type: ignore[assignment]
    windows = [list(ids) for n in (1, 2, 3) for ids in product(range(3), repeat=n)]
    table = emissions(grammar, 0)
    found = emission_chain(rules_of(grammar, 0)).counts(windows, 3, lambda tokens: table[:, tokens])
    for wanted, counts in zip(windows, found, strict=True):
        assert float(counts[len(wanted) - 1][0]) == pytest.approx(counted[tuple(wanted)], abs=1e-13)


def test_what_lies_in_padding_counts_for_nothing() -> None:
    grammar = random_grammar(SupportTree(5, 1), [3], vocabulary=4)
    rules, table = rules_of(grammar, 0), emissions(grammar, 0)
    clean = emission_chain(rules).counts([[1, 2]], 2, lambda tokens: table[:, tokens])
    rules.chain[3:], rules.chain[:, :, 3:], rules.chain[0, 1] = 7.0, 7.0, 7.0
    dirty = emission_chain(rules).counts([[1, 2]], 2, lambda tokens: table[:, tokens])
    assert np.concatenate(clean[0]).tolist() == np.concatenate(dirty[0]).tolist()
