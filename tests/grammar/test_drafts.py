"""Drafts behind a verified prefix: against enumeration, and behind what the drafter thinks impossible."""

import math
from itertools import product

import numpy as np
import pytest

from pcfgnat.grammar.automaton import any_sentence
from pcfgnat.grammar.continuations import Continuations, SentenceRules, best_continuations
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.drafts import Draft, DraftSettings, start_drafts
from pcfgnat.grammar.forced_prefix import ForcedPrefix
from pcfgnat.grammar.kernels.drafts import judge_draft
from pcfgnat.grammar.lengths import pick_length
from pcfgnat.grammar.one_sentence import sentence_rules
from pcfgnat.grammar.tokens import TokenCandidates, TokenRules, forced_weights
from pcfgnat.structures.by_length import ByLength
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.decoding.test_structured import VOCABULARY, allowed, best_sentences, grammar_of
from tests.support.grammars import oracle
from tests.support.lattices import random_dag
from tests.support.sentences import BOS, EOS

LIMIT = 6


def draft_of(grammars: Grammars, index: int, longest: int, penalty: float) -> Draft:
    longest_of_all = [min(longest, most) for most in grammars.max_lengths]
    settings = DraftSettings(penalty, SPECIAL_TOKENS)
    return start_drafts(grammars, longest_of_all, [12] * len(grammars), settings)[index]


def free_continuations(
    rules: SentenceRules, ids: np.ndarray, scores: np.ndarray, limit: int
) -> Continuations:
    """The best continuations when every symbol emits its best token."""
    column, may_repeat = scores[:, None].astype(np.float64), np.zeros((len(ids), 1), dtype=bool)
    best = TokenCandidates(ids[:, None].copy(), column, may_repeat, TokenRules())
    return best_continuations(rules, best, any_sentence(), limit)


def proposed(draft: Draft) -> tuple[int, ...]:
    size = draft.propose()
    return tuple(draft.tokens[draft.given : draft.given + size].tolist())


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("chain_length", "depth"), [(5, 0), (4, 1), (3, 2), (3, 3)])
def test_a_draft_is_the_best_continuation(chain_length: int, depth: int, penalty: float) -> None:
    grammar = grammar_of(chain_length, depth, [chain_length, chain_length - 1])
    grammars = grammar.grammars(SPECIAL_TOKENS)
    for index in range(2):
        longest = min(LIMIT, grammars.max_lengths[index])
        ranked = best_sentences(oracle(grammar, index), longest, penalty)
        for given in range(1, longest):
            for words in list(product((4, 5, 6), repeat=given - 1))[:5]:
                prefix = (BOS, *words)
                draft = draft_of(grammars, index, LIMIT, penalty)
                draft.verify(words)
                best = next((ids for _, ids in ranked if ids[:given] == prefix and len(ids) > given), None)
                expected = () if best is None else best[given:]
                assert proposed(draft) == expected


@pytest.mark.parametrize("drafts", [grammar_of(12, 1, [12, 7], seed=3), random_dag([14, 9], VOCABULARY)])
@pytest.mark.parametrize("penalty", [0.0, 1.3])
def test_tokens_may_be_verified_one_by_one_or_together(drafts: ByLength, penalty: float) -> None:
    """Every draft equals that of the forced prefix, which keeps all its states."""
    grammars = drafts.grammars(SPECIAL_TOKENS)
    scores, tokens = grammars.best_tokens()
    for index, steps in ((0, (1, 3, 2)), (1, (2, 1, 1)), (0, (6,))):
        rules = sentence_rules(grammars, index)
        size, longest = rules.support.num_nodes, min(12, rules.support.max_length)
        table = free_continuations(rules, tokens[index, :size], scores[index, :size], longest)
        prefix, draft = ForcedPrefix.start(table), draft_of(grammars, index, longest, penalty)
        words, prefix = iter([5, 4, 4, 6, 5, 6]), extended(prefix, grammars, index, BOS)
        for count in steps:
            fresh = [next(words) for _ in range(count)]
            for token in fresh:
                prefix = extended(prefix, grammars, index, token)
            draft.verify(fresh)
            given = len(prefix.ids)
            best = pick_length(prefix.scores[given + 1 :].tolist(), range(given + 1, longest + 1), penalty)
            expected = prefix.continuation(given + 1 + best) if best >= 0 else ()
            assert proposed(draft) == expected
            assert draft.tokens[: draft.given].tolist() == list(prefix.ids)


def extended(prefix: ForcedPrefix, grammars: Grammars, index: int, token: int) -> ForcedPrefix:
    rules = prefix.continuations.rules
    column = grammars.columns(index, np.array([token]))[: rules.support.num_nodes, 0]
    return prefix.extended(token, forced_weights(column, token, SPECIAL_TOKENS, rules.support))


def test_an_impossible_token_does_not_end_all_drafts() -> None:
    grammar = grammar_of(5, 1)
    grammar.scores.emit[0, :, 6] = -math.inf
    draft = draft_of(grammar.grammars(SPECIAL_TOKENS), 0, 8, 1.0)
    draft.verify([6])
    following = proposed(draft)
    assert following[-1] == EOS
    assert all(token in allowed(2, 1, 9) for token in following[:-1])
    draft.verify([4] * 8)  # more than the grammar has room for
    assert proposed(draft) == ()


@pytest.mark.parametrize(("best", "room", "slack", "expected"), [
    ([5, 6, EOS], 9, 0.0, (3, EOS, -0.3)),      # all is accepted
    ([5, 4, 7], 9, 0.0, (1, 4, -0.2)),          # its own token takes the second place
    ([5, 4, EOS], 9, 3.0, (3, EOS, -2.2)),      # unless the draft's is good enough
    ([5, 6, 7], 2, 3.0, (1, EOS, -4.1)),        # the second token is the last one that there is room for
    ([7, 6, EOS], 1, 0.0, (0, EOS, -4.0)),
])  # fmt: skip
def test_a_draft_is_accepted_as_far_as_it_is_good(
    best: list[int], room: int, slack: float, expected: tuple[int, int, float]
) -> None:
    draft = np.array([[0, 0, 0], [5, 6, EOS]])
    agrees = np.array([best]) == draft[1:]
    highest = np.full((2, 3), -0.1, dtype=np.float32)
    given = np.repeat(np.where(agrees, highest[1:], -2.0), 2, 0).astype(np.float32)
    end = np.where(draft == EOS, given, -4.0).astype(np.float32)
    found = judge_draft(np.array([best] * 2), highest, given, end, draft, 1, 3, room, EOS, slack)
    assert found == (*expected[:2], pytest.approx(expected[2], abs=1e-6), pytest.approx(given[1].sum()))
