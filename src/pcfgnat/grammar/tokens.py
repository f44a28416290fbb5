"""Which tokens a search looks at: a few for each symbol, enough for an exact answer over the vocabulary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from pcfgnat.grammar.automaton import Automaton
from pcfgnat.grammar.search import SpecialTokens
from pcfgnat.grammar.support_tree import SupportTree

NEG_INF = float("-inf")
# A token's neighbours rule out two at most, so one of the three best is as good as any further one.
OTHERS_WITHOUT_REPEATS = 3
FEW_COLUMNS = 32


@dataclass(frozen=True)
class TokenRules:
    """What a sentence's tokens must fulfil besides an automaton.

    special:    bos first, eos last, and none of the special tokens between; None treats all ids alike
    no_repeats: no token stands directly before itself
    may_repeat: tokens that may all the same
    """

    special: SpecialTokens | None = None
    no_repeats: bool = False
    may_repeat: frozenset[int] = frozenset()


@dataclass(frozen=True)
class TopTokens:
    """The best tokens of every symbol, best first, and all scores of some particular tokens.

    `known[token][i]` is the log-probability of a token at symbol i: bos, eos, and what an automaton asks for.
    """

    ids: Int[np.ndarray, "m k"]
    scores: Float[np.ndarray, "m k"]
    known: Mapping[int, Float[np.ndarray, "m"]]
    vocabulary: int

    @classmethod
    def of(cls, emit: Float[np.ndarray, "m V"], k: int, known: Sequence[int]) -> "TopTokens":
        """Take the k best and the known tokens from all log-probabilities."""
        ids = best_columns(emit, k)
        scores = np.take_along_axis(emit, ids, axis=1)
        return cls(ids, scores, {token: emit[:, token] for token in known}, emit.shape[1])


def best_columns(scores: Float[np.ndarray, "m V"], k: int) -> Int[np.ndarray, "m k"]:
    """Return the k best columns of each row, best first, of equal ones the first; all if there are fewer.

    Looking for a few maxima takes far less time than sorting a vocabulary.
    """
    if k > FEW_COLUMNS:
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    rest, row = scores.copy(), np.arange(len(scores))
    found = np.zeros((len(scores), min(k, scores.shape[1])), dtype=np.int64)
    empty = np.zeros(len(scores), dtype=bool)  # rows in which nothing is left
    for place in range(found.shape[1]):
        found[:, place] = best = rest.argmax(axis=1)
        empty |= np.isneginf(rest[row, best])
        rest[row, best] = NEG_INF
    if empty.any():
        found[empty] = np.argsort(-scores[empty], axis=1, kind="stable")[:, :k]
    return found


@dataclass(frozen=True)
class TokenCandidates:
    """The tokens that each symbol may emit: those that an automaton tells apart, then the best others."""

    ids: Int[np.ndarray, "m T"]
    scores: Float[np.ndarray, "m T"]
    may_repeat: Bool[np.ndarray, "m T"]
    rules: TokenRules

    @property
    def no_repeats(self) -> bool:
        """Return whether no token may stand before itself."""
        return self.rules.no_repeats


def tokens_needed(automaton: Automaton, rules: TokenRules) -> int:
    """Return how many best tokens of each symbol make a search exact."""
    others = OTHERS_WITHOUT_REPEATS if rules.no_repeats else 1
    return others + len(automaton.tokens) + (len(rules.special.ids) if rules.special else 0)


def token_candidates(
    top: TopTokens, automaton: Automaton, rules: TokenRules, support: SupportTree
) -> TokenCandidates:
    """Choose the tokens that a search has to look at."""
    if top.ids.shape[1] < min(needed := tokens_needed(automaton, rules), top.vocabulary):
        raise ValueError(f"top must have the {needed} best tokens of each symbol, got {top.ids.shape[1]}")
    special = rules.special.ids if rules.special else ()
    told_apart = np.array(automaton.tokens, dtype=np.int64)
    taken = np.isin(top.ids, np.concatenate([told_apart, np.array(special, dtype=np.int64)]))
    others = OTHERS_WITHOUT_REPEATS if rules.no_repeats else 1
    order = np.argsort(taken, axis=1, kind="stable")[:, :others]
    other_ids, other_taken = (np.take_along_axis(array, order, axis=1) for array in (top.ids, taken))
    other_scores = np.where(other_taken, NEG_INF, np.take_along_axis(top.scores, order, axis=1))
    symbols = len(top.ids)
    own = [_column(top, token, special) for token in automaton.tokens]
    scores = np.column_stack([*own, other_scores.astype(np.float64)])
    ids = np.concatenate([np.broadcast_to(told_apart, (symbols, len(own))), other_ids], axis=1)
    if rules.special is not None:
        last = support.num_nodes - 1
        for symbol, token in ((1, rules.special.bos), (last, rules.special.eos)):
            _pin(ids[symbol], scores[symbol], automaton, token, _column(top, token, ())[symbol])
    repeat = np.isin(ids, np.array(sorted(rules.may_repeat), dtype=np.int64))
    return TokenCandidates(np.ascontiguousarray(ids, dtype=np.int64), scores, repeat, rules)


def forced_weights(
    weights: Float[np.ndarray, "m"], token: int, special: SpecialTokens | None, support: SupportTree
) -> Float[np.ndarray, "m"]:
    """Return the log-probability of a forced token at every symbol, -inf where it may not stand.

    bos stands first and eos last only, and nothing else does: so a prefix with eos is the whole sentence.
    """
    if special is None:
        return weights.astype(np.float64)
    allowed = np.zeros(len(weights), dtype=bool)
    last = support.num_nodes - 1
    if token == special.bos:
        allowed[1] = True
    elif token == special.eos:
        allowed[last] = True
    else:
        allowed[2:last] = True
    return np.where(allowed, weights.astype(np.float64), NEG_INF)


def _column(top: TopTokens, token: int, banned: Sequence[int]) -> Float[np.ndarray, "m"]:
    if token not in top.known:
        raise ValueError(f"top must know the scores of token {token}, got those of {sorted(top.known)}")
    column = top.known[token].astype(np.float64)
    return np.full_like(column, NEG_INF) if token in banned else column


def _pin(ids: np.ndarray, scores: np.ndarray, automaton: Automaton, token: int, score: float) -> None:
    """Leave one token only to a symbol."""
    column = automaton.tokens.index(token) if token in automaton.tokens else len(automaton.tokens)
    scores[:] = NEG_INF
    ids[column], scores[column] = token, score
