"""Decoding with constraints and prefixes in plain numpy, straight from the definitions: the specification.

Small and slow. The kernels of `continuations.py` and `forced_prefix.py` are compared with it.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from pcfgnat.grammar.continuations import SentenceRules
from pcfgnat.grammar.support_tree import prefix_height

NEG_INF = float("-inf")

# adds up alternatives along an axis: `np.max`, or `np.logaddexp.reduce`
Add = Callable[..., np.ndarray]


def constrained_scores(
    rules: SentenceRules,
    emit: Float[np.ndarray, "m V"],
    table: Int[np.ndarray, "Q V"],
    accepting: Bool[np.ndarray, "Q"],
    max_length: int,
) -> Float[np.ndarray, "S"]:
    """Return the best score of every length from 0 on, among the sentences that an automaton accepts.

    `table` has a column for every token, -1 for a dead end. All values are functions of the automaton's state
    and the number of tokens to come, `[Q, N + 1]`; every node turns what follows it into what it begins:

        emit_i(f)[q, r] = max_v token_i(v) + f[δ(q, v), r - 1]
        derive_ε(f) = f        derive_o(f) = max_{o → x o y} rule + derive_x(emit_o(derive_y(f)))
        value_a = max_b derive_b(emit_a(max_c rule[a, b, c] + value_c))
    """
    support, block = rules.support, rules.chain.shape[1]
    impossible = np.full((len(table), max_length + 1), NEG_INF)

    def emitted(symbol: int, rest: np.ndarray) -> np.ndarray:
        shifted = np.vstack([impossible, np.full(max_length + 1, NEG_INF)])  # the last row is the dead end
        shifted[:-1, 1:] = rest[:, :-1]
        return (emit[symbol, None, :, None] + shifted[table]).max(1)  # type: ignore[no-any-return]

    def derived(k: int, offset: int, rest: np.ndarray) -> np.ndarray:
        if offset == 0:
            return rest
        symbol = 1 + (k - 1) * block + offset
        if prefix_height(offset) == 0:
            return emitted(symbol, rest)
        own = [
            rules.prefix[k, number] + derived(k, rule.left, emitted(symbol, derived(k, rule.right, rest)))
            for number, rule in enumerate(support.prefix_rules())
            if rule.parent == offset
        ]
        return np.max(own, axis=0)  # type: ignore[no-any-return]

    ending = impossible.copy()
    ending[accepting, 0] = 0.0
    last = support.chain_length - 1
    values = {last: emitted(support.chain_node(last), ending)}
    for a in reversed(range(last)):
        own = []
        for b in range(block if a > 0 else 1):
            after = np.max([rules.chain[a, b, c] + values[c] for c in range(a + 1, last + 1)], axis=0)
            own.append(derived(a, b, emitted(support.chain_node(a), after)))
        values[a] = np.max(own, axis=0)
    return values[0][0]  # type: ignore[no-any-return]


def without_repeats(
    table: Int[np.ndarray, "Q V"], accepting: Bool[np.ndarray, "Q"], may_repeat: frozenset[int]
) -> tuple[Int[np.ndarray, "P V"], Bool[np.ndarray, "P"]]:
    """Return the product with an automaton that remembers the last token, of which state 0 has seen none."""
    states, vocabulary = table.shape
    width = vocabulary + 1
    product = np.full((states * width, vocabulary), -1, dtype=np.int64)
    for q in range(states):
        for last in range(width):  # 0: none, v + 1: token v
            for token in range(vocabulary):
                if table[q, token] >= 0 and (last != token + 1 or token in may_repeat):
                    product[q * width + last, token] = table[q, token] * width + token + 1
    return product, np.repeat(accepting, width)


def front_scores(rules: SentenceRules, tokens: Float[np.ndarray, "m N"], add: Add) -> Float[np.ndarray, "S"]:
    """Return the total of every length from 0 on, when symbol i has the weight `tokens[i, t]` at position t.

    From the front, so that positions are absolute: a prefix is just token weights.

        pair[a, b, t] = (⊕_w before[a, t-1-w] ⊗ left[b, t-1-w, w]) ⊗ token[a, t-1]
        before[c, t]  = ⊕_{a, b} pair[a, b, t] ⊗ rule[a, b, c]
        score(L)      = before[last, L-1] ⊗ token[last, L-1]
    """
    support, positions = rules.support, tokens.shape[1]
    last = support.chain_length - 1
    lefts = [_left_children(rules, tokens, k, add) for k in range(last)]
    before = np.full((last + 1, positions), NEG_INF)
    before[0, 0] = 0.0
    for t in range(1, positions):
        terms: list[list[float]] = [[NEG_INF] for _ in range(last + 1)]
        for a in range(last):
            own = tokens[support.chain_node(a), t - 1]
            for (b, width), value in lefts[a].items():
                if (start := t - 1 - width) >= 0:
                    pair = before[a, start] + value[start] + own
                    for c in range(a + 1, last + 1):
                        terms[c].append(pair + rules.chain[a, b, c])
        before[:, t] = [add(np.array(own)) for own in terms]
    return np.concatenate([[NEG_INF], before[last] + tokens[support.chain_node(last)]])


def _left_children(
    rules: SentenceRules, tokens: np.ndarray, k: int, add: Add
) -> dict[tuple[int, int], np.ndarray]:
    """`[offset, width] -> [N]`: a prefix node of main-chain node k deriving so many tokens from there on."""
    positions, block = tokens.shape[1], rules.chain.shape[1]
    values = {(0, 0): np.zeros(positions)}
    for offset in sorted(range(1, block if k > 0 else 1), key=prefix_height):
        own = tokens[1 + (k - 1) * block + offset]
        if prefix_height(offset) == 0:
            values[offset, 1] = own
            continue
        terms: dict[int, list[np.ndarray]] = {}
        for number, rule in enumerate(rules.support.prefix_rules()):
            for (x, left), (y, right) in [(p, q) for p in values for q in values]:
                if (rule.parent, rule.left, rule.right) == (offset, x, y):
                    term = rules.prefix[k, number] + values[x, left] + _shifted(own, left)
                    terms.setdefault(left + 1 + right, []).append(term + _shifted(values[y, right], left + 1))
        values |= {(offset, width): add(np.array(found), axis=0) for width, found in terms.items()}
    return values


def _shifted(values: np.ndarray, by: int) -> np.ndarray:
    """Move the value at position i + by to i."""
    return np.concatenate([values[by:], np.full(min(by, len(values)), NEG_INF)])
