"""The main chain's recursion as Triton kernels: one program per sentence, one launch per pass.

A program visits main-chain nodes one by one, all start positions at once, as the compiled CPU kernels do:
every rule is read once, and the table of spans stays in the nearest cache. Sums are taken in log space with
a maximum for each row and position, so that no rule is too improbable to count. What is written by some
threads and read by others is kept apart by barriers; loops are not pipelined, or a load might overtake them.

Shapes, all contiguous:
  heads  [B, C, Q, N]   left child in prefix state q and the node's own token, from position s on
  chain  [B, C, D, C]   rules
  states [Q, 2]         offset of the left child, tokens that it derives; state 0 is ε
  spans  [B, C, N]      S[a, s], filled with -inf before
  rights [B, C, Q, N]   sum over right children behind state q that begins at s, filled with -inf before
"""

import triton
import triton.language as tl

NEG_INF = tl.constexpr(float("-inf"))


@triton.jit
def finite(value):
    """Return 0 in place of -inf, to be subtracted without making NaN of -inf."""
    return tl.where(value == NEG_INF, 0.0, value)


@triton.jit
def rule_times_span(chain, spans, a, j, c, t, stop, length, nodes, width, block):
    """`chain[a, j, c] + spans[c, t]` as a tile `[c, t]`; -inf where there is no rule or no position."""
    legal = (c > a) & (c < stop)
    rules = tl.load(chain + (a * block + j) * nodes + c, mask=legal, other=NEG_INF)
    inside = legal[:, None] & (t < length)[None, :]
    found = tl.load(spans + c[:, None] * width + t[None, :], mask=inside, other=NEG_INF)
    return rules.to(found.dtype)[:, None] + found


@triton.jit
def inside_kernel(
    heads, chain, states, stops, lengths, spans, rights, nodes, width, block, num_states,
    TILE_C: tl.constexpr, TILE_N: tl.constexpr,
):  # fmt: skip
    """Fill spans and rights: log Σ over the derivations of each suffix from each node."""
    b = tl.program_id(0).to(tl.int64)
    stop = tl.minimum(tl.load(stops + b), nodes).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    heads += b * nodes * num_states * width
    rights += b * nodes * num_states * width
    chain += b * nodes * block * nodes
    spans += b * nodes * width
    dtype = spans.dtype.element_ty
    if length > 0:
        end = tl.load(heads + (stop - 1) * num_states * width + length - 1)
        tl.store(spans + (stop - 1) * width + length - 1, end)
    tl.debug_barrier()
    for step in range(stop - 1):
        a = stop - 2 - step
        lefts = tl.where(a > 0, num_states, 1)
        for first in range(0, length - 1, TILE_N):
            s = first + tl.arange(0, TILE_N)
            largest = tl.full((TILE_N,), NEG_INF, dtype)
            total = tl.zeros((TILE_N,), dtype)
            for q in range(lefts):
                j = tl.load(states + 2 * q)
                t = s + tl.load(states + 2 * q + 1) + 1
                peak = tl.full((TILE_N,), NEG_INF, dtype)
                amount = tl.zeros((TILE_N,), dtype)
                for start in range((a + 1) // TILE_C * TILE_C, stop, TILE_C):
                    c = start + tl.arange(0, TILE_C)
                    term = rule_times_span(chain, spans, a, j, c, t, stop, length, nodes, width, block)
                    higher = tl.maximum(peak, tl.max(term, axis=0))
                    base = finite(higher)
                    amount = amount * tl.exp(peak - base) + tl.sum(tl.exp(term - base[None, :]), axis=0)
                    peak = higher
                right = finite(peak) + tl.log(amount)
                inside = t < length
                place = (a * num_states + q) * width + s
                tl.store(rights + place, right, mask=inside)
                term = tl.load(heads + place, mask=inside, other=NEG_INF) + right
                higher = tl.maximum(largest, term)
                base = finite(higher)
                total = total * tl.exp(largest - base) + tl.exp(term - base)
                largest = higher
            tl.store(spans + a * width + s, finite(largest) + tl.log(total), mask=s < length - 1)
        tl.debug_barrier()


@triton.jit
def outside_kernel(
    heads, chain, states, stops, lengths, spans, rights, weights, mass, grad_heads, grad_chain,
    nodes, width, block, num_states, TILE_C: tl.constexpr, TILE_N: tl.constexpr,
):  # fmt: skip
    """Write the posteriors of heads and rules times each sentence's weight; all outputs hold zeros before.

    mass `[B, C, N]` is the posterior probability of each span. A node hands its own on, by left child, to
    heads and to the spans of its right children.
    """
    b = tl.program_id(0).to(tl.int64)
    stop = tl.minimum(tl.load(stops + b), nodes).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    heads += b * nodes * num_states * width
    rights += b * nodes * num_states * width
    grad_heads += b * nodes * num_states * width
    chain += b * nodes * block * nodes
    grad_chain += b * nodes * block * nodes
    spans += b * nodes * width
    mass += b * nodes * width
    weight = tl.load(weights + b)
    possible = tl.load(spans) != NEG_INF
    if possible:
        tl.store(mass, 1.0)
        tl.debug_barrier()
        for a in range(stop - 1):
            lefts = tl.where(a > 0, num_states, 1)
            for first in range(0, length - 1, TILE_N):
                s = first + tl.arange(0, TILE_N)
                begins = s < length - 1
                own = tl.load(mass + a * width + s, mask=begins, other=0.0)
                span = finite(tl.load(spans + a * width + s, mask=begins, other=0.0))
                for q in range(lefts):
                    j = tl.load(states + 2 * q)
                    t = s + tl.load(states + 2 * q + 1) + 1
                    place = (a * num_states + q) * width + s
                    right = tl.load(rights + place, mask=t < length, other=NEG_INF)
                    head = tl.load(heads + place, mask=t < length, other=NEG_INF)
                    part = own * tl.exp(head + right - span)
                    tl.store(grad_heads + place, part * weight, mask=t < length)
                    base = finite(right)
                    for start in range((a + 1) // TILE_C * TILE_C, stop, TILE_C):
                        c = start + tl.arange(0, TILE_C)
                        term = rule_times_span(chain, spans, a, j, c, t, stop, length, nodes, width, block)
                        share = part[None, :] * tl.exp(term - base[None, :])
                        legal = (c > a) & (c < stop)
                        inside = legal[:, None] & (t < length)[None, :]
                        target = mass + c[:, None] * width + t[None, :]
                        tl.store(target, tl.load(target, mask=inside, other=0.0) + share, mask=inside)
                        entry = grad_chain + (a * block + j) * nodes + c
                        received = tl.load(entry, mask=legal, other=0.0)
                        tl.store(entry, received + tl.sum(share, axis=1) * weight, mask=legal)
                    tl.debug_barrier()
        end = tl.load(mass + (stop - 1) * width + length - 1)
        tl.store(grad_heads + (stop - 1) * num_states * width + length - 1, end * weight)


@triton.jit
def best_kernel(
    heads, chain, states, stops, lengths, spans, back, nodes, width, block, num_states,
    TILE_C: tl.constexpr, TILE_N: tl.constexpr,
):  # fmt: skip
    """Fill spans with the best derivation of each suffix, and back with `q · nodes + c` of its first step."""
    b = tl.program_id(0).to(tl.int64)
    stop = tl.minimum(tl.load(stops + b), nodes).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    heads += b * nodes * num_states * width
    chain += b * nodes * block * nodes
    spans += b * nodes * width
    back += b * nodes * width
    dtype = spans.dtype.element_ty
    if length > 0:
        end = tl.load(heads + (stop - 1) * num_states * width + length - 1)
        tl.store(spans + (stop - 1) * width + length - 1, end)
    tl.debug_barrier()
    for step in range(stop - 1):
        a = stop - 2 - step
        lefts = tl.where(a > 0, num_states, 1)
        for first in range(0, length - 1, TILE_N):
            s = first + tl.arange(0, TILE_N)
            best = tl.full((TILE_N,), NEG_INF, dtype)
            choice = tl.full((TILE_N,), -1, tl.int32)
            for q in range(lefts):
                j = tl.load(states + 2 * q)
                t = s + tl.load(states + 2 * q + 1) + 1
                head = tl.load(heads + (a * num_states + q) * width + s, mask=t < length, other=NEG_INF)
                for start in range((a + 1) // TILE_C * TILE_C, stop, TILE_C):
                    c = start + tl.arange(0, TILE_C)
                    term = rule_times_span(chain, spans, a, j, c, t, stop, length, nodes, width, block)
                    found, row = tl.max(term, axis=0, return_indices=True)
                    value = head + found
                    better = value > best
                    best = tl.where(better, value, best)
                    choice = tl.where(better, q * nodes + start + row, choice)
            tl.store(spans + a * width + s, best, mask=s < length - 1)
            tl.store(back + a * width + s, choice, mask=s < length - 1)
        tl.debug_barrier()


@triton.jit
def trace_kernel(states, stops, lengths, starts, spans, back, marks, nodes, width, num_states):
    """Set `marks[a, q, s] = 1`, zeros before, along the best derivation of the root from `starts` on."""
    b = tl.program_id(0).to(tl.int64)
    stop = tl.minimum(tl.load(stops + b), nodes).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    s = tl.load(starts + b).to(tl.int32)
    marks += b * nodes * num_states * width
    spans += b * nodes * width
    back += b * nodes * width
    a = 0
    inside = (s >= 0) & (s < length)
    if tl.load(spans + s, mask=inside, other=NEG_INF) != NEG_INF:
        while a < stop - 1:
            choice = tl.load(back + a * width + s)
            q = choice // nodes
            tl.store(marks + (a * num_states + q) * width + s, 1.0)
            s = s + tl.load(states + 2 * q + 1) + 1
            a = choice - q * nodes
        tl.store(marks + a * num_states * width + s, 1.0)
