"""The best sentence of a grammar or graph in which no word follows itself."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.continuations import SentenceRules, best_continuations
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.lengths import pick_length
from pcfgnat.grammar.repeats import RepeatsRemainError, best_without_repeats, repeated_words
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.grammar.tokens import TokenRules, TopTokens, token_candidates, tokens_needed


@dataclass(frozen=True, eq=False)
class Unrepeated:
    """Searches of one sentence of a batch; without word starts every token is a word."""

    grammars: Grammars
    index: int
    limit: int
    word_starts: frozenset[int] | None

    def allows(self, hypothesis: Hypothesis) -> bool:
        """Return whether no word of a sentence follows itself."""
        starts = frozenset(hypothesis.ids) if self.word_starts is None else self.word_starts
        return not repeated_words(hypothesis.ids, starts)

    def best(self, length_penalty: float, found: Hypothesis) -> Hypothesis:
        """Return what was found to be best of all if it is allowed, or else the best sentence that is.

        Exact over all trees, the whole vocabulary and all lengths up to the limit. What was found is returned
        as it is, if no sentence is allowed or the search takes too many rounds.
        """
        if self.allows(found):
            return found
        starts = self.word_starts
        if starts is None:
            starts = frozenset(range(self._emit.shape[1]))
        known = [word + word for word in repeated_words(found.ids, starts)]  # what the first round would find

        def search(automaton: Automaton) -> Hypothesis | None:
            return self._accepted(automaton, length_penalty)

        try:
            return best_without_repeats(search, starts, forbidden=known) or found
        except RepeatsRemainError:
            return found

    def _accepted(self, automaton: Automaton, length_penalty: float) -> Hypothesis | None:
        """Return the best sentence that an automaton accepts."""
        rules, plain = self._rules, TokenRules()
        top = TopTokens.of(self._emit, tokens_needed(automaton, plain), automaton.tokens)
        candidates = token_candidates(top, automaton, plain, rules.support)
        table = best_continuations(rules, candidates, automaton, self.limit)
        place = pick_length(table.scores[1:].tolist(), range(1, self.limit + 1), length_penalty)
        if place < 0:
            return None
        symbols, ids, scores = table.follow(0, int(rules.plan.bottoms[0]), 0, place + 1)
        return self.grammars.hypothesis(self.index, tuple(symbols), np.array(scores), np.array(ids))

    @cached_property
    def _emit(self) -> Float[np.ndarray, "m V"]:
        """Log-probabilities of all tokens at all symbols, of which symbol 0 derives ε."""
        log_probs = self.grammars.symbol_log_probs(self.index)
        return np.concatenate([np.full_like(log_probs[:1], -np.inf), log_probs])

    @property
    def _rules(self) -> SentenceRules:
        grammars, index = self.grammars, self.index
        return SentenceRules(
            grammars.chain[index], grammars.prefix[index], int(grammars.chain_lengths[index])
        )
