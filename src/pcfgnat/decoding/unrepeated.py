"""The best sentence of a grammar or graph in which no word follows itself."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.continuations import SentenceRules, best_continuations
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.k_best import LeadingTokens
from pcfgnat.grammar.lengths import pick_length
from pcfgnat.grammar.repeats import (
    EVERY_TOKEN,
    RepeatsRemainError,
    best_without_repeats,
    repeated_words,
)
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.grammar.tokens import TokenRules, TopTokens, token_candidates, tokens_needed
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True, eq=False)
class Unrepeated:
    """Searches of one sentence of a batch; without word starts every token is a word."""

    grammars: Grammars
    index: int
    limit: int
    word_starts: frozenset[int] | None

    def allows(self, hypothesis: Hypothesis) -> bool:
        """Return whether no word of a sentence follows itself."""
        return not repeated_words(hypothesis.ids, self._starts)

    def best(self, length_penalty: float, found: Hypothesis) -> Hypothesis:
        """Return what was found to be best of all if it is allowed, or else the best sentence that is.

        Exact over all trees, the whole vocabulary and all lengths up to the limit. What was found is returned
        as it is, if no sentence is allowed or the search takes too many rounds.
        """
        if self.allows(found):
            return found
        # what the first round would find
        known = [word + word for word in repeated_words(found.ids, self._starts)]

        def search(automaton: Automaton) -> Hypothesis | None:
            return self._accepted(automaton, length_penalty)

        try:
            return best_without_repeats(search, self._starts, forbidden=known) or found
        except RepeatsRemainError:
            return found

    def _accepted(self, automaton: Automaton, length_penalty: float) -> Hypothesis | None:
        """Return the best sentence that an automaton accepts."""
        rules, plain = self._rules, TokenRules()
        top = self._top(tokens_needed(automaton, plain), automaton.tokens)
        candidates = token_candidates(top, automaton, plain, rules.support)
        table = best_continuations(rules, candidates, automaton, self.limit)
        place = pick_length(table.scores[1:].tolist(), range(1, self.limit + 1), length_penalty)
        if place < 0:
            return None
        symbols, ids, scores = table.follow(0, int(rules.plan.bottoms[0]), 0, place + 1)
        return self.grammars.hypothesis(self.index, tuple(symbols), np.array(scores), np.array(ids))

    def _top(self, count: int, known: Sequence[int]) -> TopTokens:
        """Return the best tokens of all symbols, of which symbol 0 derives ε, and all scores of some tokens.

        These are best tokens of nodes, or were found in an earlier round, so they are among the best ones.
        """
        tokens = LeadingTokens.of(self.grammars, self.index, count, SPECIAL_TOKENS)
        offset, (nodes, best) = self.grammars.offset, tokens.leading.shape
        columns = np.full((offset + nodes, len(tokens.ids)), -np.inf, tokens.columns.dtype)
        leading = np.zeros((offset + nodes, best), np.int64)
        columns[offset:], leading[offset:] = tokens.columns, tokens.leading
        places = {token: place for place, token in enumerate(tokens.ids.tolist())}
        scores = columns[np.arange(len(columns))[:, None], leading]
        return TopTokens(tokens.ids[leading], scores, {t: columns[:, places[t]] for t in known}, best)

    @property
    def _starts(self) -> Container[int]:
        return EVERY_TOKEN if self.word_starts is None else self.word_starts

    @property
    def _rules(self) -> SentenceRules:
        grammars, index = self.grammars, self.index
        return SentenceRules(
            grammars.chain[index], grammars.prefix[index], int(grammars.chain_lengths[index])
        )
