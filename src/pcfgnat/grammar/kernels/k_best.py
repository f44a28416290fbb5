"""The best different sentences of a lattice, one after another (Lawler 1972).

A *prefix* is a row of `fronts`, `came`, `parents`, `last` (its last token) and `given` (its length); `fronts`
is as in `drafts.py`, `came[a, x]` the state `a · X + x` that emitted the last token. A *region* has the
sentences with a prefix whose next token is not excluded: `costs` (`-score / L^β` of its best sentence),
`lengths` (of that), `prefixes`, `excluded` (a link, see below) and `may_end` (whether the prefix as a whole
sentence belongs to it). Excluded tokens are lists: a link has a token and the link behind it.

Tokens are columns of `columns[M, U]`, the log-probabilities that all nodes give them, -inf where they may not
stand. `leading[M, k]` are the best of each node, best first.

What cannot be part of a sentence that is wanted is dropped: `least` is a `score / L^β` that all of them have,
`needed[a, x, t]` what a way to a state behind t tokens must be worth at least.
"""

import numpy as np

from pcfgnat.grammar.kernels.common import NEG_INF, jit
from pcfgnat.grammar.kernels.continuations import exists
from pcfgnat.grammar.kernels.drafts import best_rest, trace_free

NOWHERE = -1
TAKEN = np.inf
SLACK = 1e-6  # sums in another order differ
PREFIXES, REGIONS, LINKS, FOUND = 0, 1, 2, 3  # places of `used`


@jit
def best_allowed(leading, columns, excluded, link_tokens, link_next, node):
    """The best token of a node that is not excluded; -1 if it has none."""
    for j in range(leading.shape[1]):
        token = leading[node, j]
        if columns[node, token] == NEG_INF:
            return NOWHERE
        link = excluded
        while link >= 0 and link_tokens[link] != token:
            link = link_next[link]
        if link < 0:
            return token
    return NOWHERE


@jit
def open_front(
    block, stop, offsets, offset, leading, columns, excluded, link_tokens, link_next, front, opened
):
    """Enter the way to every state, less what its best token is better than its best allowed one."""
    for a in range(stop):
        for x in range(offsets.shape[0]):
            opened[a, x] = front[a, x]
            if excluded >= 0 and front[a, x] > NEG_INF:
                node = 1 + (a - 1) * block + offsets[x] - offset
                token = best_allowed(leading, columns, excluded, link_tokens, link_next, node)
                opened[a, x] = NEG_INF
                if token >= 0:
                    lost = np.float64(columns[node, token]) - np.float64(columns[node, leading[node, 0]])
                    opened[a, x] = front[a, x] + lost


@jit
def add_region(
    block, stop, offsets, offset, leading, columns, best, powers, fronts, ended, given, link_tokens,
    link_next, costs, lengths, prefixes, excluded_of, may_end, used, prefix, excluded, may, least, opened,
    values,
):  # fmt: skip
    """Add a region unless it is empty or not needed."""
    open_front(
        block, stop, offsets, offset, leading, columns, excluded, link_tokens, link_next, fronts[prefix],
        opened,
    )  # fmt: skip
    length, value, count = 0, NEG_INF, given[prefix]
    if may and ended[prefix] > NEG_INF and count < best.shape[2]:
        length, value = count, ended[prefix] / powers[count]
    if count < best.shape[2] - 1:
        rest = best_rest(opened, stop, best, count, powers, values)
        if rest and (length == 0 or values[rest] / powers[count + rest] > value):
            length, value = count + rest, values[rest] / powers[count + rest]
    if length and value >= least - SLACK:
        region = used[REGIONS]
        costs[region], lengths[region], prefixes[region] = -value, length, prefix
        excluded_of[region], may_end[region] = excluded, may
        used[REGIONS] = region + 1


@jit
def add_prefix(
    chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, offset, columns, needed, fronts,
    came, ended, parents, last, given, used, parent, token, entered, origin,
):  # fmt: skip
    """Add the prefix that has one more token than another; return its number."""
    block, states = chain.shape[1], offsets.shape[0]
    own = used[PREFIXES]
    used[PREFIXES] = own + 1
    parents[own], last[own], given[own], ended[own] = parent, token, given[parent] + 1, NEG_INF
    for a in range(stop):
        entered[a] = NEG_INF
        for x in range(states):
            fronts[own, a, x] = NEG_INF
    for a in range(stop):
        for x in range(states):
            if fronts[parent, a, x] == NEG_INF:
                continue
            score = np.float64(columns[1 + (a - 1) * block + offsets[x] - offset, token])
            if score == NEG_INF:
                continue
            weight, here = fronts[parent, a, x] + score, a * states + x
            if offsets[x] < block:
                for move in range(first_move[x], first_move[x + 1]):
                    rule, y = moves[move, 0], moves[move, 1]
                    value = weight + (np.float64(prefix_rules[a, rule]) if rule >= 0 else 0.0)
                    if value > fronts[own, a, y]:
                        fronts[own, a, y], came[own, a, y] = value, here
            elif a == stop - 1:
                ended[own] = weight
            else:
                for c in range(np.uint64(a + 1), np.uint64(stop)):
                    value = weight + np.float64(chain[a, lefts[x], c])
                    better = value > entered[c]
                    entered[c] = value if better else entered[c]
                    origin[c] = here if better else origin[c]
    for c in range(1, stop):
        for e in range(entries.shape[0]):
            x = entries[e]
            if exists(c, x, stop, states - block) and entered[c] > fronts[own, c, x]:
                fronts[own, c, x], came[own, c, x] = entered[c], origin[c]
        for x in range(states):
            possible = fronts[own, c, x] > NEG_INF and given[own] < needed.shape[2]
            if possible and fronts[own, c, x] < needed[c, x, given[own]]:
                fronts[own, c, x] = NEG_INF
    return own


@jit
def least_needed(costs, count, wanted, lowest):
    """`score / L^β` of the `wanted`-th best region; -inf if there are fewer."""
    lowest[:] = np.inf
    for i in range(count):
        cost, j = costs[i], wanted - 1
        if cost < lowest[j]:
            while j > 0 and cost < lowest[j - 1]:
                lowest[j] = lowest[j - 1]
                j -= 1
            lowest[j] = cost
    return -lowest[wanted - 1]


@jit
def least_of_changes(length, path, offset, leading, columns, score, powers, wanted, lowest):
    """A `score / L^β` that at least `wanted` sentences have: the best one, and those with one other token."""
    lowest[:] = np.inf
    if wanted == 1 or leading.shape[1] == 1:
        return score / powers[length] if wanted == 1 else NEG_INF
    for i in range(length):
        node, j = path[i] - offset, wanted - 2
        lost = np.float64(columns[node, leading[node, 0]]) - np.float64(columns[node, leading[node, 1]])
        if lost < lowest[j]:
            while j > 0 and lost < lowest[j - 1]:
                lowest[j] = lowest[j - 1]
                j -= 1
            lowest[j] = lost
    return (score - lowest[wanted - 2]) / powers[length]


@jit
def fill_needed(best, block, powers, least, needed):
    """What a way to a state must be worth for `score / L^β` to be `least`; sums in another order may differ.

    There are at most `a · d` tokens before one of block a.
    """
    longest = best.shape[2] - 1
    for a in range(needed.shape[0]):
        for x in range(needed.shape[1]):
            needed[a, x] = np.inf if least > NEG_INF else NEG_INF
            for r in range(1, longest + 1):
                rest = best[a, x, r] + SLACK
                if rest > NEG_INF:
                    for t in range(np.uint64(min(longest - r, a * block) + 1)):
                        value = least * powers[t + np.uint64(r)] - rest
                        needed[a, x, t] = value if value < needed[a, x, t] else needed[a, x, t]


@jit
def enter_sentence(
    stop, block, offsets, offset, ids, columns, prefix, came, parents, last, given, found, symbols, tokens,
    token_scores,
):  # fmt: skip
    """Enter symbols, ids and token scores of the best tree of a prefix that is a whole sentence."""
    a, x = stop - 1, offsets.shape[0] - block
    while given[prefix] > 0:
        place, symbol = given[prefix] - 1, 1 + (a - 1) * block + offsets[x]
        symbols[found, place], tokens[found, place] = symbol, ids[last[prefix]]
        token_scores[found, place] = columns[symbol - offset, last[prefix]]
        prefix = parents[prefix]
        if given[prefix] > 0:
            origin = came[prefix, a, x]
            a, x = origin // offsets.shape[0], origin % offsets.shape[0]


@jit
def cheapest(costs, count):
    """The region with the best sentence, the earlier one on a tie; -1 if none is left."""
    region, cost = NOWHERE, TAKEN
    for i in range(count):
        if costs[i] < cost:
            region, cost = i, costs[i]
    return region


@jit
def add_link(link_tokens, link_next, used, token, behind):
    """Add a token to a list; return the list."""
    link = used[LINKS]
    link_tokens[link], link_next[link] = token, behind
    used[LINKS] = link + 1
    return link


@jit
def find_sentences(
    chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, offset, ids, columns, leading,
    best, powers, fronts, came, ended, parents, last, given, link_tokens, link_next, costs, lengths, prefixes,
    excluded_of, may_end, used, symbols, tokens, token_scores, found_lengths, scores,
):  # fmt: skip
    """Enter the best sentences until there are as many as `scores` has room for, or there is no further one.

    Returns whether the other arrays have too little room to continue. Prefix 0 is the empty one.
    """
    block, longest, wanted = chain.shape[1], best.shape[2] - 1, scores.shape[0]
    opened, values = np.empty((stop, offsets.shape[0])), np.empty(longest + 1)
    path, entered, origin = np.empty(longest, np.int64), np.empty(stop), np.empty(stop, np.int64)
    needed, lowest, least = np.empty((stop, offsets.shape[0], longest + 1)), np.empty(wanted), NEG_INF
    length = best_rest(fronts[0], stop, best, 0, powers, values)
    if length:
        trace_free(
            chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, best, 0,
            offsets.shape[0] - block, length, path,
        )  # fmt: skip
        least = least_of_changes(
            length, path, offset, leading, columns, values[length], powers, wanted, lowest
        )
    fill_needed(best, block, powers, least, needed)
    while used[FOUND] < wanted:
        if used[PREFIXES] + longest > fronts.shape[0] or used[REGIONS] + longest + 1 > costs.shape[0]:
            return True
        begins = used[PREFIXES] == 0  # with the region of all sentences
        prefix, rest, excluded, may, token = 0, 0, NOWHERE, False, NOWHERE
        least = max(least, least_needed(costs, used[REGIONS], wanted - used[FOUND], lowest))
        if begins:
            used[PREFIXES] = 1
        else:
            region = cheapest(costs, used[REGIONS])
            if region == NOWHERE:
                return False
            costs[region] = TAKEN
            prefix, excluded, may = prefixes[region], excluded_of[region], may_end[region]
            rest = lengths[region] - given[prefix]
        if rest > 0:
            open_front(
                block, stop, offsets, offset, leading, columns, excluded, link_tokens, link_next,
                fronts[prefix], opened,
            )  # fmt: skip
            highest, node, state = NEG_INF, NOWHERE, NOWHERE
            for a in range(stop):
                for x in range(offsets.shape[0]):
                    if opened[a, x] + best[a, x, rest] > highest:
                        highest, node, state = opened[a, x] + best[a, x, rest], a, x
            trace_free(
                chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, best, node, state,
                rest, path,
            )  # fmt: skip
            token = best_allowed(leading, columns, excluded, link_tokens, link_next, path[0] - offset)
        for i in range(rest + 1):  # sentences that leave this one at place i, and those that continue it
            link, ends = excluded, False
            if i < rest:
                if i > 0:
                    token = leading[path[i] - offset, 0]
                link, ends = add_link(link_tokens, link_next, used, token, excluded), may
            if begins or used[FOUND] + 1 < wanted:
                add_region(
                    block, stop, offsets, offset, leading, columns, best, powers, fronts, ended, given,
                    link_tokens, link_next, costs, lengths, prefixes, excluded_of, may_end, used, prefix,
                    link, ends, least, opened, values,
                )  # fmt: skip
            if i < rest:
                prefix = add_prefix(
                    chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, offset, columns,
                    needed, fronts, came, ended, parents, last, given, used, prefix, token, entered, origin,
                )  # fmt: skip
            excluded, may = NOWHERE, True
        if not begins:
            found = used[FOUND]
            enter_sentence(
                stop, block, offsets, offset, ids, columns, prefix, came, parents, last, given, found,
                symbols, tokens, token_scores,
            )  # fmt: skip
            found_lengths[found], scores[found] = given[prefix], ended[prefix]
            used[FOUND] = found + 1
    return False


@jit
def score_sentences(
    chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, offset, ids, columns, texts,
    lengths, fronts, came, ended, parents, last, given, used, symbols, tokens, token_scores, scores,
):  # fmt: skip
    """Enter score and symbols of the best tree of each of some sentences, whose tokens are columns.

    Prefix t has t tokens of the current sentence; what it shares with the one before it is kept.
    """
    entered, origin = np.empty(stop), np.empty(stop, np.int64)
    needed = np.empty((stop, offsets.shape[0], 0))  # nothing is dropped
    for i in range(texts.shape[0]):
        shared, shortest = 0, min(lengths[i], lengths[i - 1]) if i else 0
        while shared < shortest and texts[i, shared] == texts[i - 1, shared]:
            tokens[i, shared] = tokens[i - 1, shared]
            shared += 1
        used[PREFIXES], prefix = shared + 1, shared
        for place in range(shared, lengths[i]):
            tokens[i, place] = ids[texts[i, place]]
            prefix = add_prefix(
                chain, prefix_rules, stop, offsets, lefts, moves, first_move, entries, offset, columns,
                needed, fronts, came, ended, parents, last, given, used, prefix, texts[i, place], entered,
                origin,
            )  # fmt: skip
        scores[i] = ended[prefix]
        if scores[i] > NEG_INF:
            enter_sentence(
                stop, chain.shape[1], offsets, offset, ids, columns, prefix, came, parents, last, given, i,
                symbols, tokens, token_scores,
            )  # fmt: skip


@jit
def number_tokens(leading, best):
    """Return all tokens of both, each once, and turn those of `leading` into places among them.

    A node's best token comes first among its own, whatever rounding says.
    """
    count, highest = leading.shape[1], 0
    for node in range(leading.shape[0]):
        place = 0
        while place < count - 1 and leading[node, place] != best[node]:
            place += 1
        for j in range(place, 0, -1):
            leading[node, j] = leading[node, j - 1]
        leading[node, 0] = best[node]
        for j in range(count):
            highest = max(highest, leading[node, j])
    places, ids, used = np.full(highest + 1, NOWHERE), np.empty(leading.size, np.int64), 0
    for node in range(leading.shape[0]):
        for j in range(count):
            token = leading[node, j]
            if places[token] == NOWHERE:
                places[token], ids[used] = used, token
                used += 1
            leading[node, j] = places[token]
    return ids[:used].copy()


@jit
def restrict_columns(ids, columns, first, last, bos, eos, special):
    """Let bos and eos stand at the ends only, nothing else there, and no special token between."""
    plain = np.ones(ids.shape[0], np.bool_)
    for column in range(ids.shape[0]):
        plain[column] = ids[column] not in special
    for node in range(columns.shape[0]):
        inside, wanted = first < node < last, NOWHERE
        if node == first:
            wanted = bos
        elif node == last:
            wanted = eos
        for column in range(ids.shape[0]):
            if not (ids[column] == wanted or (inside and plain[column])):
                columns[node, column] = NEG_INF


@jit
def align_columns(columns, leading, scores):
    """Make all tokens agree with the best one of each node: no other is better, whatever rounding says."""
    for node in range(columns.shape[0]):
        for column in range(columns.shape[1]):
            columns[node, column] = min(columns[node, column], scores[node])
        columns[node, leading[node, 0]] = scores[node]
