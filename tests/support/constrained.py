"""Every sentence with every tree, one by one, for searches with constraints."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product

import numpy as np

from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.continuations import Continuations, SentenceRules, best_continuations
from pcfgnat.grammar.tokens import TokenRules, TopTokens, token_candidates, tokens_needed
from pcfgnat.structures import RHPCFG, Hypothesis
from tests.support.grammars import oracle
from tests.support.oracle import Derivation, derivations

Found = tuple[float, tuple[int, ...], Derivation]


def rules_of(grammar: RHPCFG, index: int, dtype: type = np.float64) -> SentenceRules:
    """One sentence of a batch, padding and all."""
    chain, prefix = grammar.scores.chain[index].numpy(), grammar.scores.prefix[index].numpy()
    return SentenceRules(chain.astype(dtype), prefix.astype(dtype), int(grammar.chain_lengths[index]))


def emissions(grammar: RHPCFG, index: int) -> np.ndarray:
    return grammar.scores.emit[index].numpy()


def sentences(grammar: RHPCFG, index: int, vocabulary: int, max_length: int = 99) -> Iterator[Found]:
    """Score, tokens and derivation of everything that has non-zero probability."""
    exact = oracle(grammar, index)
    for derivation in derivations(exact.tree):
        if len(derivation.nodes) > max_length:
            continue
        structure = exact.structure_score(derivation)
        rows = [exact.emit[node] for node in derivation.nodes]
        for ids in product(range(vocabulary), repeat=len(rows)):
            score = structure + sum(row[token] for row, token in zip(rows, ids, strict=True))
            if score > -math.inf:
                yield score, ids, derivation


def best_by_length(
    found: Sequence[Found], fulfilled: Callable[[tuple[int, ...]], bool], max_length: int
) -> list[float]:
    """The best score of every length from 0 on, among the sentences that fulfil a condition."""
    scores = [-math.inf] * (max_length + 1)
    for score, ids, _ in found:
        if len(ids) <= max_length and score > scores[len(ids)] and fulfilled(ids):
            scores[len(ids)] = score
    return scores


def contains(ids: Sequence[int], phrase: Sequence[int]) -> bool:
    width = len(phrase)
    return any(tuple(ids[i : i + width]) == tuple(phrase) for i in range(len(ids) - width + 1))


def repeats(ids: Sequence[int], may_repeat: frozenset[int] = frozenset()) -> bool:
    return any(a == b and a not in may_repeat for a, b in pairwise(ids))


def search(
    grammar: RHPCFG, index: int, automaton: Automaton, rules: TokenRules, max_length: int
) -> Continuations:
    """The table of one sentence, with no more tokens than an exact search needs."""
    sentence, emit = rules_of(grammar, index), emissions(grammar, index)
    special = (rules.special.bos, rules.special.eos) if rules.special else ()
    top = TopTokens.of(emit, tokens_needed(automaton, rules), (*automaton.tokens, *special))
    candidates = token_candidates(top, automaton, rules, sentence.support)
    return best_continuations(sentence, candidates, automaton, max_length)


def assert_scored(grammar: RHPCFG, index: int, hypothesis: Hypothesis, score: float) -> None:
    """The hypothesis has this score, counted once more from its own symbols and tokens."""
    exact = oracle(grammar, index)
    (derivation,) = [own for own in derivations(exact.tree) if own.nodes == hypothesis.nodes]
    assert math.isclose(exact.score(derivation, list(hypothesis.ids)), score, abs_tol=1e-9)
    assert math.isclose(hypothesis.score, score, abs_tol=1e-9)
    assert hypothesis.tree is not None
    assert hypothesis.tree.nodes == hypothesis.nodes
