"""The best different sentences of a grammar, exactly, over all trees and the whole vocabulary.

The best sentence is found, and what remains is cut into regions by where a sentence first differs from it
(Lawler 1972): each region has a fixed beginning and some tokens that may not follow it. The table of free
continuations answers for every region and length at once, so that no sentence comes twice, however many
trees it has.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from jaxtyping import Bool, Float, Int64

from pcfgnat.grammar.automaton import any_sentence
from pcfgnat.grammar.continuations import Continuations, SentenceRules, best_continuations
from pcfgnat.grammar.forced_prefix import ForcedPrefix
from pcfgnat.grammar.search import Hypothesis
from pcfgnat.grammar.tokens import TokenCandidates, TokenRules

NEG_INF = float("-inf")


@dataclass(frozen=True, order=True)
class _Region:
    """The sentences with a prefix whose next token is not excluded; the best of them comes first in a heap.

    cost:    `-score / L^β` of its best sentence
    number:  earlier regions come first on a tie
    may_end: whether the prefix itself, as a whole sentence, belongs to it
    """

    cost: float
    number: int
    length: int = field(compare=False)
    prefix: ForcedPrefix = field(compare=False)
    excluded: frozenset[int] = field(compare=False)
    may_end: bool = field(compare=False)


def best_sentences(
    rules: SentenceRules,
    tokens: Float[np.ndarray, "m V"],
    max_length: int,
    length_penalty: float,
    count: int,
) -> list[Hypothesis]:
    """Return up to `count` different sentences by `score / L^β` of their best tree, best first.

    `tokens` are log-probabilities by symbol, -inf where a symbol may not emit a token. A further sentence
    of L tokens takes L times `C²/2 · d` steps for its beginnings, and `C · X · N` for the best of what
    follows each.
    """
    search = _Search(rules, tokens, max_length, length_penalty, count)
    found: list[Hypothesis] = []
    while search.regions and len(found) < count:
        found.append(search.take(heappop(search.regions)))
    return found


def free_continuations(
    rules: SentenceRules, ids: Int64[np.ndarray, "m"], scores: Float[np.ndarray, "m"], max_length: int
) -> Continuations:
    """Return the best continuations when every symbol emits its best token, which is given."""
    column = np.ascontiguousarray(scores[:, None], dtype=np.float64)
    may_repeat = np.zeros(column.shape, dtype=bool)
    best = TokenCandidates(np.ascontiguousarray(ids[:, None]), column, may_repeat, TokenRules())
    return best_continuations(rules, best, any_sentence(), max_length)


class _Search:
    """Regions that have not been looked into, and how to do that."""

    def __init__(
        self,
        rules: SentenceRules,
        tokens: Float[np.ndarray, "m V"],
        max_length: int,
        length_penalty: float,
        count: int,
    ) -> None:
        self.tokens, self.regions = tokens, list[_Region]()
        self._numbered = 0
        self._ids, self._scores = top_columns(tokens, count)  # a region excludes fewer than `count`
        self._table = free_continuations(rules, self._ids[:, 0], self._scores[:, 0], max_length)
        node, plan = np.arange(rules.chain_length)[:, None], rules.plan
        self._symbols = (1 + (node - 1) * rules.chain.shape[1] + plan.offsets).clip(min=0)  # C X
        self._divisors = np.arange(1, max_length + 1, dtype=np.float64) ** length_penalty
        self._add(ForcedPrefix.start(self._table), frozenset(), may_end=False)

    def take(self, region: _Region) -> Hypothesis:
        """Return a region's best sentence, and add regions of all its others."""
        prefix, given = region.prefix, len(region.prefix.ids)
        if region.length == given:
            self._add(prefix, region.excluded, may_end=False)
            return prefix.hypothesis(given)
        weights, allowed = self._free(prefix, region.excluded)
        rest = self._table.best[:, :-1, 0, region.length - given]
        place = np.unravel_index(np.argmax(weights + rest), weights.shape)
        symbol = self._symbols[place]
        token = int(self._ids[symbol, np.argmax(allowed[symbol])])
        self._add(prefix, region.excluded | {token}, region.may_end)
        prefix = prefix.extended(token, self.tokens[:, token])
        found = prefix.hypothesis(region.length)
        for token in found.ids[given + 1 :]:
            self._add(prefix, frozenset([token]), may_end=True)
            prefix = prefix.extended(token, self.tokens[:, token])
        self._add(prefix, frozenset(), may_end=False)
        return found

    def _add(self, prefix: ForcedPrefix, excluded: frozenset[int], may_end: bool) -> None:
        """Add a region unless it is empty."""
        given, longest = len(prefix.ids), self._table.max_length
        scores = np.full(longest + 1, NEG_INF)
        if may_end:
            scores[given] = prefix.ended
        if given < longest:
            weights, _ = self._free(prefix, excluded)
            rest = self._table.best[:, :-1, 0, 1 : longest - given + 1]
            scores[given + 1 :] = (weights[:, :, None] + rest).max((0, 1))
        values = scores[1:] / self._divisors
        values[np.isneginf(scores[1:])] = NEG_INF
        best = int(np.argmax(values)) if longest else 0
        if longest and scores[best + 1] > NEG_INF:
            self._numbered += 1
            heappush(
                self.regions,
                _Region(-float(values[best]), self._numbered, best + 1, prefix, excluded, may_end),
            )

    def _free(
        self, prefix: ForcedPrefix, excluded: frozenset[int]
    ) -> tuple[Float[np.ndarray, "C X"], Bool[np.ndarray, "m k"]]:
        """Return the way to every state, less what its best token is better than its best allowed one.

        Also which of the top tokens are allowed.
        """
        allowed = (self._scores > NEG_INF) & ~np.isin(self._ids, np.array(sorted(excluded), dtype=np.int64))
        best = np.where(allowed, self._scores, NEG_INF).max(1)
        lost = np.where(best > NEG_INF, best - np.where(best > NEG_INF, self._scores[:, 0], 0.0), NEG_INF)
        return prefix.front + lost[self._symbols], allowed


def top_columns(
    tokens: Float[np.ndarray, "m V"], count: int
) -> tuple[Int64[np.ndarray, "m k"], Float[np.ndarray, "m k"]]:
    """Return ids and scores of the best tokens of each symbol, best first, the smaller id on a tie."""
    count = min(count, tokens.shape[1])
    some = np.sort(np.argpartition(-tokens, count - 1, axis=1)[:, :count], axis=1)
    scores = np.take_along_axis(tokens, some, axis=1).astype(np.float64)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1), np.take_along_axis(scores, order, axis=1)
