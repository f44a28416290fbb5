"""The probability that an automaton accepts a sentence of a grammar, over all trees, lengths and tokens."""

import numpy as np
from jaxtyping import Float

from pcfgnat.grammar.class_automaton import ClassAutomaton
from pcfgnat.grammar.continuations import SentenceRules


def log_acceptance(
    rules: SentenceRules, chances: Float[np.ndarray, "n V"], automaton: ClassAutomaton
) -> float:
    """Return the log-weight of all sentences that an automaton accepts; -inf if there is none.

    `chances` are the probabilities of all tokens at the symbols 1, 2, …; every value is a function of the
    automaton's state, `[Q]`, and every state of a block turns what follows it into what it begins. Takes
    `C²/2 · d · Q` steps and `C · X · Q · K` for tokens of K classes.
    """
    plan, stop, block = rules.plan, rules.chain_length, rules.chain.shape[1]
    emit = _class_weights(automaton, chances)  # symbol 1 is row 0
    states = len(automaton.table)
    begin = np.full((stop, states), -np.inf)
    chain, prefix = rules.chain.astype(np.float64), rules.prefix.astype(np.float64)
    bottom = int(plan.bottoms[0])
    for a in range(stop - 1, -1, -1):
        values = np.full((plan.states, states), -np.inf)
        for x in range(plan.states - 1, -1, -1):
            if x != bottom and not 0 < a < stop - 1:  # the root and the last node have no prefix tree
                continue
            if plan.offsets[x] < block:
                moves = plan.moves[plan.first[x] : plan.first[x + 1]]
                terms = [(prefix[a, r] if r >= 0 else 0.0) + values[y] for r, y in moves.tolist()]
                after = np.logaddexp.reduce(terms, axis=0)
            elif a == stop - 1:
                after = np.where(automaton.accepting, 0.0, -np.inf)
            else:
                ahead = chain[a, plan.lefts[x], a + 1 : stop, None] + begin[a + 1 :]
                after = _logsumexp(ahead.T)
            following = np.append(after, -np.inf)[automaton.table]  # Q K; the last entry is the dead end's
            symbol = 1 + (a - 1) * block + int(plan.offsets[x])
            values[x] = _logsumexp(emit[symbol - 1] + following)
        begin[a] = np.logaddexp.reduce(values[plan.entries], axis=0)
    return float(begin[0, 0])


def _class_weights(automaton: ClassAutomaton, chances: Float[np.ndarray, "n V"]) -> Float[np.ndarray, "n K"]:
    """Return log-weights of the classes at every symbol."""
    order = np.argsort(automaton.classes, kind="stable")
    kinds, first = np.unique(automaton.classes[order], return_index=True)
    weights = np.zeros((len(chances), automaton.table.shape[1]))
    weights[:, kinds] = np.add.reduceat(chances[:, order], first, axis=1)
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _logsumexp(rows: Float[np.ndarray, "r c"]) -> Float[np.ndarray, "r"]:
    highest = rows.max(1, initial=-np.inf)
    finite = np.where(highest > -np.inf, highest, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(rows - finite[:, None]).sum(1)) + finite  # type: ignore[no-any-return]
