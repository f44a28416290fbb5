"""Drafts behind a verified prefix: against enumeration, and behind what the drafter thinks impossible."""

import math
from itertools import product

import pytest

from pcfgnat.grammar.drafts import start_drafts
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.decoding.test_structured import allowed, best_sentences, grammar_of
from tests.support.grammars import oracle
from tests.support.sentences import BOS, EOS

LIMIT = 6


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("chain_length", "depth"), [(5, 0), (4, 1), (3, 2)])
def test_a_draft_is_the_best_continuation(chain_length: int, depth: int, penalty: float) -> None:
    grammar = grammar_of(chain_length, depth, [chain_length, chain_length - 1])
    grammars = grammar.grammars(SPECIAL_TOKENS)
    for index in range(2):
        longest = min(LIMIT, grammars.max_lengths[index])
        ranked = best_sentences(oracle(grammar, index), longest, penalty)
        for given in range(longest):
            for words in list(product((4, 5, 6), repeat=max(given - 1, 0)))[:5]:
                prefix = (BOS, *words)[:given]
                draft = start_drafts(grammars, [longest, longest], SPECIAL_TOKENS)[index]
                draft.extend(prefix)
                best = next((ids for _, ids in ranked if ids[:given] == prefix and len(ids) > given), None)
                expected = () if best is None else best[given:]
                assert draft.continuation(penalty) == expected


def test_an_impossible_token_does_not_end_all_drafts() -> None:
    grammar = grammar_of(5, 1)
    grammar.scores.emit[0, :, 6] = -math.inf
    draft = start_drafts(grammar.grammars(SPECIAL_TOKENS), [8], SPECIAL_TOKENS)[0]
    draft.extend([BOS, 6])
    following = draft.continuation(1.0)
    assert following[-1] == EOS
    assert all(token in allowed(2, 1, 9) for token in following[:-1])
    draft.extend([4] * 8)  # more than the grammar has room for
    assert draft.continuation(1.0) == ()
