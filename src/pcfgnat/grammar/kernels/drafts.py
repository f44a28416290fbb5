"""Drafts of one sentence: the best continuation of tokens that another model has verified.

Every symbol emits its best token behind the prefix. `best` is `[C, X + 1, N + 1]`: main-chain node, state of
its block, tokens to come; block state X stands for the best state that a block may begin with. `front[a, x]`
is the best way to emit the prefix such that state x of main-chain node a's block emits next. Tokens and their
scores are those of nodes, of which node 0 is symbol `offset`.
"""

import numpy as np

from pcfgnat.grammar.kernels.common import NEG_INF, jit
from pcfgnat.grammar.kernels.continuations import exists, most_tokens

NOWHERE = -1


@jit
def fill_free(chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, scores, best):
    """Fill the table of continuations, from the last main-chain node to the root."""
    block, states, longest = chain.shape[1], offsets.shape[0], best.shape[2] - 1
    bottom, after, one = states - block, np.empty(longest + 1), np.uint64(1)
    best[:] = NEG_INF
    for a in range(stop - 1, -1, -1):
        top = most_tokens(a, stop, block, longest)
        for x in range(states - 1, -1, -1):
            if not exists(a, x, stop, bottom):
                continue
            after[:] = NEG_INF
            if offsets[x] < block:
                for move in range(first_move[x], first_move[x + 1]):
                    rule, y = moves[move, 0], moves[move, 1]
                    weight = np.float64(prefix[a, rule]) if rule >= 0 else 0.0
                    for r in range(np.uint64(top)):
                        value = weight + best[a, y, r]
                        after[r] = value if value > after[r] else after[r]
            elif a == stop - 1:
                after[0] = 0.0
            else:
                for c in range(a + 1, stop):
                    weight = np.float64(chain[a, lefts[x], c])
                    for r in range(np.uint64(most_tokens(c, stop, block, longest) + 1)):
                        value = weight + best[c, states, r]
                        after[r] = value if value > after[r] else after[r]
            score = np.float64(scores[1 + (a - 1) * block + offsets[x] - offset])
            for r in range(np.uint64(top)):
                best[a, x, r + one] = score + after[r]
        for e in range(entries.shape[0]):
            if exists(a, entries[e], stop, bottom):
                for r in range(np.uint64(top + 1)):
                    value = best[a, entries[e], r]
                    best[a, states, r] = value if value > best[a, states, r] else best[a, states, r]


@jit
def advance(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, j, first, last, least,
    front, following,
):  # fmt: skip
    """Emit one more token, column j of `columns`, by one of the symbols `first … last`.

    No symbol that may emit it finds it less probable than `least`.
    """
    block, states = chain.shape[1], offsets.shape[0]
    entered = np.full(stop, NEG_INF)
    following[:] = NEG_INF
    for a in range(stop):
        for x in range(states):
            symbol = 1 + (a - 1) * block + offsets[x]
            if front[a, x] == NEG_INF or symbol < first or symbol > last:
                continue
            weight = front[a, x] + max(np.float64(columns[symbol - offset, j]), least)
            if offsets[x] < block:
                for move in range(first_move[x], first_move[x + 1]):
                    rule, y = moves[move, 0], moves[move, 1]
                    value = weight + (np.float64(prefix[a, rule]) if rule >= 0 else 0.0)
                    following[a, y] = max(following[a, y], value)
            elif a < stop - 1:
                for c in range(np.uint64(a + 1), np.uint64(stop)):
                    value = weight + np.float64(chain[a, lefts[x], c])
                    entered[c] = value if value > entered[c] else entered[c]
    for c in range(1, stop):
        for e in range(entries.shape[0]):
            if exists(c, entries[e], stop, states - block):
                following[c, entries[e]] = max(following[c, entries[e]], entered[c])


@jit
def trace_free(chain, prefix, stop, offsets, lefts, moves, first_move, entries, best, a, x, length, symbols):
    """Enter the symbols of the best continuation of `length` tokens from state (a, x) on."""
    block, states = chain.shape[1], offsets.shape[0]
    for i in range(length):
        rest, value = length - i, NEG_INF
        if x == states:  # the block's best beginning
            for e in range(entries.shape[0]):
                if best[a, entries[e], rest] > value:
                    value, x = best[a, entries[e], rest], entries[e]
        symbols[i] = 1 + (a - 1) * block + offsets[x]
        rest, value, node, state = rest - 1, NEG_INF, a, x
        if offsets[x] == block:
            for c in range(a + 1, stop):
                term = np.float64(chain[a, lefts[x], c]) + best[c, states, rest]
                if term > value:
                    value, node, state = term, c, states
        else:
            for move in range(first_move[x], first_move[x + 1]):
                rule, y = moves[move, 0], moves[move, 1]
                term = (np.float64(prefix[a, rule]) if rule >= 0 else 0.0) + best[a, y, rest]
                if term > value:
                    value, node, state = term, a, y
        a, x = node, state


@jit
def best_rest(front, stop, best, given, powers, values):
    """How many more tokens the best sentence by `score / L^β` has; 0 if there is none.

    `values` is room for the score of every number of further tokens.
    """
    longest = best.shape[2] - 1 - given
    for r in range(1, longest + 1):
        values[r] = NEG_INF
    for a in range(stop):
        for x in range(front.shape[1]):
            if front[a, x] > NEG_INF:
                weight = front[a, x]
                for r in range(np.uint64(1), np.uint64(longest + 1)):
                    value = weight + best[a, x, r]
                    values[r] = value if value > values[r] else values[r]
    found, highest = 0, NEG_INF
    for r in range(1, longest + 1):
        if values[r] > NEG_INF and values[r] / powers[given + r] > highest:
            found, highest = r, values[r] / powers[given + r]
    return found


@jit
def read_front(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, tokens, known, given,
    bos, eos, least, front,
):  # fmt: skip
    """Let the front move on over `tokens[known:given]`, of which bos stands first and eos last.

    Column j of `columns` holds log-probabilities of token `known + j` at all nodes.
    """
    final = (stop - 1) * chain.shape[1] + 1
    following = np.empty_like(front)
    for j in range(given - known):
        token, first, last = tokens[known + j], 2, final - 1
        if token == bos:
            first, last = 1, 1
        elif token == eos:
            first, last = final, final
        advance(
            chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, j, first, last,
            least, front, following,
        )  # fmt: skip
        front[:] = following


@jit
def continue_draft(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, ids, best, columns, tokens,
    known, given, bos, eos, least, front, powers,
):  # fmt: skip
    """Read `tokens[known:given]`, and enter the best continuation behind them.

    Returns its number of tokens, and the score of the best tree of all; 0 and -inf if there is none.
    """
    read_front(
        chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, tokens, known,
        given, bos, eos, least, front,
    )  # fmt: skip
    if given >= best.shape[2] - 1:
        return 0, NEG_INF
    values = np.empty(best.shape[2])
    rest = best_rest(front, stop, best, given, powers, values)
    if rest == 0:
        return 0, NEG_INF
    highest, node, state = NEG_INF, NOWHERE, NOWHERE
    for a in range(stop):
        for x in range(front.shape[1]):
            if front[a, x] + best[a, x, rest] > highest:
                highest, node, state = front[a, x] + best[a, x, rest], a, x
    symbols = np.empty(rest, dtype=np.int64)
    trace_free(
        chain, prefix, stop, offsets, lefts, moves, first_move, entries, best, node, state, rest, symbols
    )
    for i in range(rest):
        tokens[given + i] = ids[symbols[i] - offset]
    return rest, highest


@jit
def finish_draft(
    chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, tokens, known, given,
    bos, eos, least, front,
):  # fmt: skip
    """Read `tokens[known:given]`, which end with eos; returns the score of the best tree of all tokens."""
    read_front(
        chain, prefix, stop, offsets, lefts, moves, first_move, entries, offset, columns, tokens, known,
        given - 1, bos, eos, least, front,
    )  # fmt: skip
    bottom, final = offsets.shape[0] - chain.shape[1], (stop - 1) * chain.shape[1] + 1
    return front[stop - 1, bottom] + max(np.float64(columns[final - offset, given - 1 - known]), least)


@jit
def judge_draft(best, best_log_probs, given_log_probs, end, draft, row, size, room, eos, slack):
    """Accept a draft up to the first token that is worse than the best one by more than `slack`.

    Returns how many of its `size` tokens are accepted, the token behind them (eos if that is among them), the
    log-probability of all of these, and that of the whole draft. With the last of `room` tokens a sentence
    has to end.
    """
    accepted, last, score, whole = size, eos, 0.0, 0.0
    for place in range(size):
        own = np.float64(given_log_probs[row, place])
        whole += own
        if accepted < size:
            continue
        wanted, highest = best[row, place], np.float64(best_log_probs[row, place])
        ends = place + 1 >= room
        if ends:
            wanted, highest = eos, np.float64(end[row, place])
        if draft[row, place] == wanted or (not ends and slack > 0 and own >= highest - slack):
            score += own
        else:
            accepted, last, score = place, wanted, score + highest
    return accepted, last, score, whole
