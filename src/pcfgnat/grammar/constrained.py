"""The best sentences that an automaton accepts, of one grammar or graph of a batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.class_automaton import ClassAutomaton, candidates_of
from pcfgnat.grammar.continuations import Continuations, SentenceRules, best_continuations
from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.lengths import LengthChooser
from pcfgnat.grammar.search import Hypothesis

MAX_STATES = 4096
USUAL_NUMBERS = 1 << 24  # of a table: 128 MiB, and about a fifth of a second
FEW_STATES = 128  # for these a table may be larger
MAX_NUMBERS = 1 << 27  # a gibibyte


@dataclass(frozen=True, eq=False)
class ConstrainedSearch:
    """Searches of one sentence, whose network has been run.

    limit:     the greatest length in tokens, bos and eos included
    log_probs: of all tokens at the symbols 1, 2, …
    """

    grammars: Grammars
    index: int
    limit: int
    log_probs: Float[np.ndarray, "n V"]

    @classmethod
    def of(cls, grammars: Grammars, index: int, limit: int, admitted: Sequence[int]) -> "ConstrainedSearch":
        """Look up all tokens once; a shortlist is extended by those that are admitted."""
        return cls(grammars, index, limit, grammars.symbol_log_probs(index, admitted))

    @property
    def rules(self) -> SentenceRules:
        """The rules of the sentence."""
        grammars, index = self.grammars, self.index
        return SentenceRules(
            grammars.chain[index], grammars.prefix[index], int(grammars.chain_lengths[index])
        )

    @property
    def max_states(self) -> int:
        """How many states an automaton may have, for the tables to fit into memory and to be filled soon."""
        rules = self.rules
        numbers = rules.chain_length * (rules.plan.states + 1) * (self.limit + 1)
        return min(MAX_STATES, max(USUAL_NUMBERS // numbers, min(FEW_STATES, MAX_NUMBERS // numbers)))

    def best(
        self,
        automaton: ClassAutomaton,
        choose: LengthChooser,
        accepted: Callable[[Sequence[int]], bool] = lambda ids: True,
    ) -> list[Hypothesis]:
        """Return the best sentences of the lengths that `choose` picks; empty if there is none.

        `accepted` is asked of the best sentence of each length: if it says no, the length is left out.
        """
        rules = self.rules
        symbols = range(1, rules.support.num_nodes)
        candidates = candidates_of(automaton, self.log_probs, symbols)
        table = best_continuations(rules, candidates, automaton, self.limit)
        scores, found = table.scores[1:], dict[int, Hypothesis]()
        while True:
            chosen = [place for place in choose(scores.tolist(), range(1, self.limit + 1)) if place >= 0]
            fresh = [place for place in chosen if place not in found]
            found |= {place: self._traced(table, place + 1) for place in fresh}
            refused = [place for place in fresh if not accepted(found[place].ids)]
            if not refused:
                return [found[place] for place in chosen]
            scores[refused] = -np.inf

    def _traced(self, table: Continuations, length: int) -> Hypothesis:
        bottom = int(table.rules.plan.bottoms[0])
        nodes, ids, scores = table.follow(0, bottom, 0, length)
        return self.grammars.hypothesis(self.index, tuple(nodes), np.array(scores), np.array(ids))
