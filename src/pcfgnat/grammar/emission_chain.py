"""Expected n-grams of one grammar, from arrays: a derivation is a walk through the states that emit.

The walk's states and moves are those of `block_plan.py`. In probability space: a window has n factors at
most, and what underflows is worth nothing. `structures/ngrams.py` computes the same with gradients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from pcfgnat.grammar.consensus import ngrams
from pcfgnat.grammar.continuations import SentenceRules

# log-probabilities of some tokens by symbol
Columns = Callable[[Int64[np.ndarray, "T"]], Float[np.ndarray, "m T"]]


@dataclass(frozen=True)
class EmissionChain:
    """The states of a grammar, block by block, in the order in which they may emit.

    moves:  weight of each state's successors
    before: weight of all ways to a state
    behind: weight of all that may follow its token
    symbol: what it stands for; the first one and the last node's are the sentence's ends
    inner:  whether it emits neither the first nor the last token
    """

    moves: Float[np.ndarray, "S S"]
    before: Float[np.ndarray, "S"]
    behind: Float[np.ndarray, "S"]
    symbol: Int64[np.ndarray, "S"]
    inner: Float[np.ndarray, "S"]

    @property
    def expected_length(self) -> float:
        """Return the expected number of tokens, bos and eos left out."""
        return float((self.before * self.behind * self.inner).sum())

    def counts(
        self, sentences: Sequence[Sequence[int]], order: int, columns: Columns
    ) -> list[list[Float[np.ndarray, "_"]]]:
        """Return the expected number of each window of 1 … `order` tokens of each sentence.

        Sentences come without bos and eos; equal windows are computed once. Takes `S²` multiplications for
        each different window of two tokens or more.
        """
        known = sorted({token for sentence in sentences for token in sentence})
        row = {token: number for number, token in enumerate(known)}
        scores = columns(np.array(known, dtype=np.int64))[self.symbol]  # S T
        chances = (np.exp(scores.astype(np.float64)) * self.inner[:, None]).T
        shorter: dict[tuple[int, ...], int] = {(): 0}
        weights = self.before[None]
        tables = list[tuple[dict[tuple[int, ...], int], np.ndarray]]()
        for n in range(1, order + 1):
            windows = sorted({window for sentence in sentences for window in ngrams(sentence, n)})
            begun = weights[[shorter[window[:-1]] for window in windows]]
            emitting = begun if n == 1 else begun @ self.moves
            weights = emitting * chances[[row[window[-1]] for window in windows]]
            shorter = {window: number for number, window in enumerate(windows)}
            tables.append((shorter, weights @ self.behind))
        return [
            [
                counts[[number[window] for window in ngrams(sentence, n)]]
                for n, (number, counts) in enumerate(tables, 1)
            ]
            for sentence in sentences
        ]


def emission_chain(rules: SentenceRules) -> EmissionChain:
    """Return the walk of a sentence's grammar; rules must be normalised for counts to be expectations."""
    plan, stop, block = rules.plan, rules.chain_length, rules.chain.shape[1]
    states, bottom = plan.states, int(plan.bottoms[0])
    exists = np.zeros((stop, states), dtype=bool)
    exists[1 : stop - 1], exists[[0, stop - 1], bottom] = True, True
    entering = exists & np.isin(np.arange(states), plan.entries)  # C X
    tables = np.zeros((stop, states, stop, states))
    for x in range(states):
        if plan.offsets[x] == block:
            weights = np.exp(rules.chain[:stop, plan.lefts[x], :stop].astype(np.float64))
            weights = np.where(np.tri(stop, dtype=bool), 0.0, weights)  # only to later nodes
            tables[:, x] = weights[:, :, None] * entering
        for rule, y in plan.moves[plan.first[x] : plan.first[x + 1]].tolist():
            inside = np.exp(rules.prefix[:stop, rule].astype(np.float64)) if rule >= 0 else np.ones(stop)
            tables[np.arange(stop), x, np.arange(stop), y] = inside
    possible = np.where(exists[:, :, None, None] & exists, tables, 0.0)
    moves = possible.reshape(stop * states, -1)
    first, last = bottom, (stop - 1) * states + bottom
    before, behind = np.zeros(len(moves)), np.zeros(len(moves))
    before[first] = behind[last] = 1.0
    for s in range(first, last):  # successors come later
        before[s + 1 :] += before[s] * moves[s, s + 1 :]
    for s in range(last - 1, -1, -1):
        behind[s] = moves[s] @ behind
    symbol = (1 + (np.arange(stop)[:, None] - 1) * block + plan.offsets).clip(min=0).ravel()
    inner = exists.ravel().astype(np.float64)
    inner[[first, last]] = 0.0
    return EmissionChain(moves, before, behind, symbol, inner)
