"""Drafts from a lattice: the best continuation of what another model has verified, as often as it is asked.

The network runs once. A further verified token costs `C²/2 · d` steps (`forced_prefix.py`).
"""

from collections.abc import Sequence

import numpy as np

from pcfgnat.grammar.decoding import Grammars
from pcfgnat.grammar.forced_prefix import ForcedPrefix
from pcfgnat.grammar.k_best import free_continuations
from pcfgnat.grammar.lengths import pick_length
from pcfgnat.grammar.one_sentence import sentence_rules
from pcfgnat.grammar.search import SpecialTokens
from pcfgnat.grammar.tokens import forced_weights

# What the drafter thinks impossible may be verified all the same, and must not end all drafts.
LEAST_LOG_PROB = -30.0


class Draft:
    """One sentence's lattice and the prefix that has been verified."""

    def __init__(self, prefix: ForcedPrefix, grammars: Grammars, index: int, special: SpecialTokens) -> None:
        self._prefix, self._grammars, self._index, self._special = prefix, grammars, index, special

    def extend(self, tokens: Sequence[int]) -> None:
        """Add verified tokens to the prefix."""
        if not tokens:
            return
        support = self._prefix.continuations.rules.support
        columns = self._grammars.columns(self._index, np.array(tokens, dtype=np.int64))
        for token, column in zip(tokens, np.maximum(columns, LEAST_LOG_PROB).T, strict=True):
            weights = forced_weights(column, token, self._special, support)
            self._prefix = self._prefix.extended(token, weights)

    def continuation(self, length_penalty: float) -> tuple[int, ...]:
        """Return what follows the prefix in the best sentence by `score / L^β`, eos included; () if none."""
        given, longest = len(self._prefix.ids), self._prefix.continuations.max_length
        if given >= longest:
            return ()
        lengths = range(given + 1, longest + 1)
        best = pick_length(self._prefix.scores[given + 1 :].tolist(), lengths, length_penalty)
        return self._prefix.continuation(lengths[best]) if best >= 0 else ()


def start_drafts(grammars: Grammars, limits: Sequence[int], special: SpecialTokens) -> list[Draft]:
    """Return drafts of all sentences of a batch, whose prefixes are empty."""
    scores, tokens = grammars.best_tokens()
    drafts = []
    for index, limit in enumerate(limits):
        rules = sentence_rules(grammars, index)
        size = rules.support.num_nodes
        table = free_continuations(rules, tokens[index, :size], scores[index, :size], limit)
        drafts.append(Draft(ForcedPrefix.start(table), grammars, index, special))
    return drafts
