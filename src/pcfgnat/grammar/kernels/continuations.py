"""The best continuation of every length from every state of grammar × automaton, and its nodes and tokens.

A table is `[C, X + 1, Q, N + 1]`: main-chain node, state of its block, state of the automaton, tokens to
come; block state X stands for the best state that a block may begin with. Where no token may stand before
itself, every entry has the best continuation, its first token, and the best one with another first token:
whatever stands before them, the best that may follow is one of the two.
"""

import numpy as np

from pcfgnat.grammar.kernels.common import NEG_INF, jit

NO_TOKEN = -1


@jit
def clear(best, first, second):
    """Make everything impossible."""
    best[:] = NEG_INF
    second[:] = NEG_INF
    first[:] = NO_TOKEN


@jit
def raise_row(best, first, second, a, x, q, weight, pairs, top, onto_best, onto_first, onto_second):
    """`onto[q, r] = max(onto[q, r], weight + table[a, x, q, r])` for all r, of pairs if wanted."""
    if not pairs:
        for r in range(np.uint64(top + 1)):
            value = weight + best[a, x, q, r]
            onto_best[q, r] = value if value > onto_best[q, r] else onto_best[q, r]
        return
    for r in range(top + 1):
        value, token = weight + best[a, x, q, r], first[a, x, q, r]
        if value > onto_best[q, r]:
            other = onto_best[q, r] if onto_first[q, r] != token else onto_second[q, r]
            onto_second[q, r] = max(other, weight + second[a, x, q, r])
            onto_best[q, r], onto_first[q, r] = value, token
        else:
            other = value if token != onto_first[q, r] else weight + second[a, x, q, r]
            onto_second[q, r] = max(onto_second[q, r], other)


@jit
def emit_row(
    best,
    first,
    second,
    a,
    x,
    q,
    token,
    score,
    repeats,
    pairs,
    top,
    after,
    after_best,
    after_first,
    after_second,
):
    """Put a token before the continuations from automaton state `after`; a token comes once for each q."""
    if not pairs:
        for r in range(np.uint64(top)):
            value = score + after_best[after, r]
            best[a, x, q, r + np.uint64(1)] = max(best[a, x, q, r + np.uint64(1)], value)
        return
    for r in range(top):
        clash = after_first[after, r] == token and not repeats
        value = score + (after_second[after, r] if clash else after_best[after, r])
        if value > best[a, x, q, r + 1]:
            second[a, x, q, r + 1] = best[a, x, q, r + 1]
            best[a, x, q, r + 1], first[a, x, q, r + 1] = value, token
        elif value > second[a, x, q, r + 1]:
            second[a, x, q, r + 1] = value


@jit
def most_tokens(a, stop, block, longest):
    """How many tokens main-chain node a of `stop` and what follows it can emit."""
    return min(longest, (stop - 1 - a) * block + 1)


@jit
def exists(a, x, stop, bottom):
    """Whether a block has this state: the root and the last node have no prefix tree."""
    return x == bottom or 0 < a < stop - 1


@jit
def collect_after(
    chain, prefix, stop, offsets, lefts, moves, first_move, accepting, pairs, best, first, second, a, x,
    after_best, after_first, after_second,
):  # fmt: skip
    """Enter what may follow the token of (a, x): moves inside the block, later blocks, or the end."""
    block, states, longest = chain.shape[1], offsets.shape[0], best.shape[3] - 1
    clear(after_best, after_first, after_second)
    for q in range(after_best.shape[0]):
        if offsets[x] < block:
            for move in range(first_move[x], first_move[x + 1]):
                rule, y = moves[move, 0], moves[move, 1]
                weight = np.float64(prefix[a, rule]) if rule >= 0 else 0.0
                raise_row(
                    best,
                    first,
                    second,
                    a,
                    y,
                    q,
                    weight,
                    pairs,
                    longest,
                    after_best,
                    after_first,
                    after_second,
                )
        elif a == stop - 1:
            after_best[q, 0] = 0.0 if accepting[q] else NEG_INF
        else:
            for c in range(a + 1, stop):
                weight = np.float64(chain[a, lefts[x], c])
                raise_row(
                    best, first, second, c, states, q, weight, pairs, most_tokens(c, stop, block, longest),
                    after_best, after_first, after_second,
                )  # fmt: skip


@jit
def emit_best_by_target(
    best, first, second, a, x, q, symbol, scores, table, top, after_best, after_first, after_second, highest,
    targets,
):  # fmt: skip
    """Put tokens before what follows; of those that lead to the same automaton state only the best counts.

    `highest` must hold -inf, and does so again afterwards.
    """
    classes, found = table.shape[1], 0
    for j in range(scores.shape[1]):
        after = table[q, min(j, classes - 1)]
        if after >= 0 and scores[symbol, j] > NEG_INF:
            if highest[after] == NEG_INF:
                targets[found] = after
                found += 1
            highest[after] = max(highest[after], scores[symbol, j])
    for i in range(found):
        after = targets[i]
        emit_row(
            best, first, second, a, x, q, NO_TOKEN, highest[after], False, False, top, after, after_best,
            after_first, after_second,
        )  # fmt: skip
        highest[after] = NEG_INF


@jit
def fill_continuations(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, ids, scores, repeats, table, accepting,
    pairs, best, first, second,
):  # fmt: skip
    """Fill the tables of one sentence, from the last main-chain node to the root."""
    block, states, longest = chain.shape[1], offsets.shape[0], best.shape[3] - 1
    automaton, classes, candidates = table.shape[0], table.shape[1], ids.shape[1]
    bottom = states - block  # the main-chain nodes' states come last, by left child
    after_best, after_second = np.empty((automaton, longest + 1)), np.empty((automaton, longest + 1))
    after_first = np.empty((automaton, longest + 1), dtype=np.int64)
    highest, targets = np.full(automaton, NEG_INF), np.empty(automaton, dtype=np.int64)
    clear(best, first, second)
    for a in range(stop - 1, -1, -1):
        top = most_tokens(a, stop, block, longest)
        for x in range(states - 1, -1, -1):
            if not exists(a, x, stop, bottom):
                continue
            collect_after(
                chain, prefix, stop, offsets, lefts, moves, first_move, accepting, pairs, best, first, second,
                a, x, after_best, after_first, after_second,
            )  # fmt: skip
            symbol = 1 + (a - 1) * block + offsets[x]
            for q in range(automaton):
                if not pairs:
                    emit_best_by_target(
                        best, first, second, a, x, q, symbol, scores, table, top, after_best, after_first,
                        after_second, highest, targets,
                    )  # fmt: skip
                    continue
                for j in range(candidates):
                    after = table[q, min(j, classes - 1)]
                    if after >= 0 and scores[symbol, j] > NEG_INF:
                        emit_row(
                            best, first, second, a, x, q, ids[symbol, j], scores[symbol, j],
                            repeats[symbol, j], pairs, top, after, after_best, after_first, after_second,
                        )  # fmt: skip
        clear(after_best, after_first, after_second)
        for e in range(entries.shape[0]):
            if exists(a, entries[e], stop, bottom):
                for q in range(automaton):
                    raise_row(
                        best, first, second, a, entries[e], q, 0.0, pairs, top, after_best, after_first,
                        after_second,
                    )  # fmt: skip
        best[a, states] = after_best
        if pairs:
            first[a, states] = after_first
            second[a, states] = after_second


@jit
def value_at(best, first, second, a, x, q, r, avoid):
    """Best continuation that does not begin with the token `avoid`; pairs are read only if there is one."""
    if avoid != NO_TOKEN and first[a, x, q, r] == avoid:
        return second[a, x, q, r]
    return best[a, x, q, r]


@jit
def best_move(
    chain, prefix, stop, offsets, lefts, moves, first_move, accepting, best, first, second, a, x, q, r, avoid
):
    """Best way on after the token of (a, x): value, main-chain node and state; X is a block's beginning."""
    block, states = chain.shape[1], offsets.shape[0]
    if r == 0:
        possible = a == stop - 1 and offsets[x] == block and accepting[q]
        return (0.0 if possible else NEG_INF), a, x
    value, node, state = NEG_INF, a, x
    if offsets[x] == block:
        for c in range(a + 1, stop):
            term = np.float64(chain[a, lefts[x], c]) + value_at(best, first, second, c, states, q, r, avoid)
            if term > value:
                value, node, state = term, c, states
    else:
        for move in range(first_move[x], first_move[x + 1]):
            rule, y = moves[move, 0], moves[move, 1]
            weight = np.float64(prefix[a, rule]) if rule >= 0 else 0.0
            term = weight + value_at(best, first, second, a, y, q, r, avoid)
            if term > value:
                value, node, state = term, a, y
    return value, node, state


@jit
def trace_continuation(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, ids, scores, repeats, table, accepting,
    pairs, best, first, second, a, x, q, length, avoid, nodes, columns,
):  # fmt: skip
    """Enter symbols and candidates' columns of the best continuation of `length` tokens from (a, x, q) on."""
    block, states, classes = chain.shape[1], offsets.shape[0], table.shape[1]
    for i in range(length):
        if x == states:  # the block's best beginning
            value = NEG_INF
            for e in range(entries.shape[0]):
                term = value_at(best, first, second, a, entries[e], q, length - i, avoid)
                if term > value:
                    value, x = term, entries[e]
        symbol, value, column = 1 + (a - 1) * block + offsets[x], NEG_INF, -1
        next_node, next_state, next_q, next_avoid = a, x, q, NO_TOKEN
        for j in range(ids.shape[1]):
            token, after = ids[symbol, j], table[q, min(j, classes - 1)]
            if after < 0 or scores[symbol, j] == NEG_INF or token == avoid:
                continue
            banned = token if pairs and not repeats[symbol, j] else NO_TOKEN
            rest, node, state = best_move(
                chain, prefix, stop, offsets, lefts, moves, first_move, accepting, best, first, second, a, x,
                after, length - i - 1, banned,
            )  # fmt: skip
            if scores[symbol, j] + rest > value:
                value, column = scores[symbol, j] + rest, j
                next_node, next_state, next_q, next_avoid = node, state, after, banned
        nodes[i], columns[i] = symbol, column
        a, x, q, avoid = next_node, next_state, next_q, next_avoid
