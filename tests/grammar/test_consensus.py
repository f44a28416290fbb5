import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from pcfgnat.grammar.consensus import consensus_score, ngrams, rank_by_consensus, window_columns
from pcfgnat.structures import SupportTree
from pcfgnat.structures.ngrams import candidate_counts
from tests.support.grammars import oracle, random_grammar
from tests.support.oracle import derivations

SENTENCES = st.lists(st.lists(st.integers(0, 3), max_size=7), max_size=5)


@given(sentences=SENTENCES, n=st.integers(1, 4))
def test_columns_hold_every_window_once(sentences: list[list[int]], n: int) -> None:
    columns = window_columns(sentences, n)
    for sentence, starts in zip(sentences, columns.starts, strict=True):
        assert [columns.tokens[start : start + n] for start in starts] == ngrams(sentence, n)
    different = {window for sentence in sentences for window in ngrams(sentence, n)}
    assert len({start for starts in columns.starts for start in starts}) == len(different)
    assert len(columns.tokens) <= n * len(different)


def test_one_sentence_is_its_own_row() -> None:
    assert window_columns([[5, 6, 7, 8]], 2).tokens == (5, 6, 7, 8)
    assert window_columns([[5, 6, 7, 8], [6, 7, 8]], 3).tokens == (5, 6, 7, 8)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        window_columns([[5]], 0)


@given(
    sentence=st.lists(st.integers(0, 4), min_size=4, max_size=12),
    reference=st.lists(st.integers(0, 4), min_size=4, max_size=12),
)
def test_against_a_certain_sentence_it_is_its_bleu(sentence: list[int], reference: list[int]) -> None:
    expected = []
    for n in range(1, 5):
        counts = Counter(ngrams(reference, n))
        expected.append(np.array([float(counts[window]) for window in ngrams(sentence, n)]))
    mine = consensus_score(sentence, expected, float(len(reference)))
    texts = [" ".join(f"w{token}" for token in ids) for ids in (sentence, reference)]
    bleu = sacrebleu.BLEU(smooth_method="none", effective_order=True, tokenize="none")
    assert 100 * mine == pytest.approx(bleu.sentence_score(texts[0], [texts[1]]).score, abs=1e-9)


def test_short_sentences_leave_out_long_windows() -> None:
    one = np.array([0.5])
    none = np.zeros(0)
    assert consensus_score([7], [one, none, none], 1.0) == pytest.approx(0.5)
    assert consensus_score([7], [one, none], 3.0) == pytest.approx(0.5 * math.exp(-2))
    assert consensus_score([], [none, none], 3.0) == 0.0
    assert consensus_score([7], [np.array([0.0])], 1.0) == 0.0
    with pytest.raises(ValueError, match="2 tokens have 1 windows of 2, got 2 counts"):
        consensus_score([7, 8], [np.ones(2), np.ones(2)], 2.0)


def test_ranks_by_score_then_order() -> None:
    candidates = [[1, 2], [3, 3], [1, 2], [1, 1]]
    expected = [
        [np.array([1.0, 1.0])],
        [np.array([0.2, 0.2])],
        [np.array([1.0, 1.0])],
        [np.array([1.0, 1.0])],
    ]
    ranked = rank_by_consensus(candidates, expected, 2.0)
    assert [index for index, _ in ranked] == [0, 2, 3, 1]
    assert [score for _, score in ranked] == pytest.approx([1.0, 1.0, 0.5, 0.1])


def test_of_a_grammar_it_is_the_bleu_against_enumerated_counts() -> None:
    support = SupportTree(4, 1)
    grammar = random_grammar(support, vocabulary=3, scale=2.0)
    candidates = [list(ids) for length in (1, 2, 3) for ids in product(range(3), repeat=length)]
    counts = [candidate_counts(grammar, [candidates], n)[0] for n in (1, 2)]
    tables = [[orders[c].numpy() for orders in counts] for c in range(len(candidates))]
    ranked = rank_by_consensus(candidates, tables, float(grammar.expected_length()[0]) - 2)
    expected: Counter[tuple[int, ...]] = Counter()
    length, exact = 0.0, oracle(grammar, 0)
    for derivation in derivations(support):
        inner = derivation.nodes[1:-1]
        for ids in product(range(3), repeat=len(inner)):
            emitted = sum(exact.emit[node][token] for node, token in zip(inner, ids, strict=True))
            chance = math.exp(exact.structure_score(derivation) + emitted)
            length += chance * len(ids)
            for window in (*ngrams(ids, 1), *ngrams(ids, 2)):
                expected[window] += chance  # type: ignore[assignment]
    for index, score in ranked:
        logs = []
        for n in (1, 2):
            own = Counter(ngrams(candidates[index], n))
            matched = sum(min(number, expected[window]) for window, number in own.items())
            logs += [math.log(matched / own.total())] if own else []
        brevity = min(0.0, 1 - length / len(candidates[index]))
        assert score == pytest.approx(math.exp(sum(logs) / len(logs) + brevity), abs=1e-12)
