"""The CTC recursion as Triton kernels: one program per sentence, one launch per pass.

A program visits slots one by one, all states at once; states are those of the reference, 2i for the blank
before token i and 2i + 1 for the token. Sums are taken in log space with a maximum for each state. What is
written by some threads and read by others is kept apart by barriers; loops are not pipelined, or a load might
overtake them.

Shapes, all contiguous, with S = 2N + 1:
  tokens   [B, T, N]     log-weights of the target's tokens
  blanks   [B, T]        log-weights of the blank
  repeated [B, N]        whether a token equals the one before it
  table    [B, T, S]     all alignments of the slots up to t that end in a state, or the best of them
"""

import triton
import triton.language as tl

NEG_INF = tl.constexpr(float("-inf"))


@triton.jit
def finite(value):
    """Return 0 in place of -inf, to be subtracted without making NaN of -inf."""
    return tl.where(value == NEG_INF, 0.0, value)


@triton.jit
def states_of(first, repeated, length, TILE: tl.constexpr):
    """Return numbers of states, whether they exist, stand for tokens, and may be reached over a blank."""
    s = first + tl.arange(0, TILE)
    exists = s <= 2 * length
    is_token = exists & (s % 2 == 1)
    again = tl.load(repeated + s // 2, mask=is_token, other=1)
    return s, exists, is_token, is_token & (s > 1) & (again == 0)


@triton.jit
def weight_of(tokens, blanks, t, s, is_token, width, dtype: tl.constexpr):
    """Log-weight of slot t emitting what each state stands for."""
    token = tl.load(tokens + t * width + s // 2, mask=is_token, other=0.0).to(dtype)
    return tl.where(is_token, token, tl.load(blanks + t).to(dtype))


@triton.jit
def before(table, t, s, exists, skips, states):
    """Values after slot t - 1 of the states that lead to each: itself, one back, two back."""
    row = table + (t - 1) * states + s
    begun = exists & (t > 0)
    stay = tl.load(row, mask=begun, other=NEG_INF)
    one = tl.load(row - 1, mask=begun & (s > 0), other=NEG_INF)
    two = tl.load(row - 2, mask=begun & skips, other=NEG_INF)
    return tl.where(exists & (t == 0) & (s < 2), 0.0, stay), one, two


@triton.jit
def log_add(a, b, c):
    """log(exp(a) + exp(b) + exp(c)); NaN if one of them is."""
    base = finite(tl.maximum(tl.maximum(a, b), c))
    return base + tl.log(tl.exp(a - base) + tl.exp(b - base) + tl.exp(c - base))


@triton.jit
def at_end(table, slots, length, states):
    """Values behind the last slot: in the blank behind the target, and on its last token."""
    last = table + (slots - 1) * states + 2 * length
    some = slots > 0
    in_blank = tl.load(last, mask=some, other=NEG_INF)
    on_token = tl.load(last - 1, mask=some & (length > 0), other=NEG_INF)
    return in_blank, on_token


@triton.jit
def ctc_forward_kernel(
    tokens, blanks, repeated, num_slots, lengths, table, total, max_slots, width, TILE: tl.constexpr
):
    """Fill the table with sums, and total `[B]` with those of whole targets."""
    b = tl.program_id(0).to(tl.int64)
    slots = tl.minimum(tl.load(num_slots + b), max_slots).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    states = 2 * width + 1
    tokens += b * max_slots * width
    blanks += b * max_slots
    repeated += b * width
    table += b * max_slots * states
    dtype: tl.constexpr = table.dtype.element_ty
    for t in range(slots):
        for first in range(0, 2 * length + 1, TILE):
            s, exists, is_token, skips = states_of(first, repeated, length, TILE)
            stay, one, two = before(table, t, s, exists, skips, states)
            value = log_add(stay, one, two) + weight_of(tokens, blanks, t, s, is_token, width, dtype)
            tl.store(table + t * states + s, value, mask=exists)
        tl.debug_barrier()
    in_blank, on_token = at_end(table, slots, length, states)
    tl.store(total + b, log_add(in_blank, on_token, tl.full((), NEG_INF, dtype)))


@triton.jit
def ctc_backward_kernel(
    repeated, num_slots, lengths, table, total, weights, parts, grad_tokens, grad_blanks, max_slots, width,
    TILE: tl.constexpr,
):  # fmt: skip
    """Write the posteriors times each sentence's weight; gradients hold zeros before.

    A state's posterior is divided among the three that lead to it. parts `[B, 2, 3, S + 2]` holds, for even
    and odd slots, what each state hands to itself, one back and two back; zeros before.
    """
    b = tl.program_id(0).to(tl.int64)
    slots = tl.minimum(tl.load(num_slots + b), max_slots).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    states = 2 * width + 1
    grad_tokens += b * max_slots * width
    grad_blanks += b * max_slots
    repeated += b * width
    table += b * max_slots * states
    parts += b * 6 * (states + 2)
    dtype: tl.constexpr = table.dtype.element_ty
    weight = tl.load(weights + b).to(dtype)
    whole = tl.load(total + b)
    if whole != NEG_INF:
        in_blank, on_token = at_end(table, slots, length, states)
        for step in range(slots):
            t = slots - 1 - step
            taken = parts + (step % 2) * 3 * (states + 2)
            given = parts + (1 - step % 2) * 3 * (states + 2)
            blank_mass = tl.zeros((TILE,), dtype)
            for first in range(0, 2 * length + 1, TILE):
                s, exists, is_token, skips = states_of(first, repeated, length, TILE)
                stayed = tl.load(taken + s, mask=exists, other=0.0)
                one_on = tl.load(taken + (states + 2) + s + 1, mask=exists, other=0.0)
                two_on = tl.load(taken + 2 * (states + 2) + s + 2, mask=exists, other=0.0)
                ends = tl.where(s == 2 * length, in_blank, tl.where(s == 2 * length - 1, on_token, NEG_INF))
                mass = tl.where(step == 0, tl.exp(ends - whole), stayed + one_on + two_on)
                tl.store(grad_tokens + t * width + s // 2, mass * weight, mask=is_token)
                blank_mass += tl.where(exists & (s % 2 == 0), mass, 0.0)
                stay, one, two = before(table, t, s, exists, skips, states)
                base = finite(log_add(stay, one, two))
                tl.store(given + s, mass * tl.exp(stay - base), mask=exists)
                tl.store(given + (states + 2) + s, mass * tl.exp(one - base), mask=exists)
                tl.store(given + 2 * (states + 2) + s, mass * tl.exp(two - base), mask=exists)
            tl.store(grad_blanks + t, tl.sum(blank_mass, axis=0) * weight)
            tl.debug_barrier()


@triton.jit
def ctc_best_kernel(
    tokens, blanks, repeated, num_slots, lengths, table, score, position, max_slots, width,
    TILE: tl.constexpr,
):  # fmt: skip
    """Fill the table with best alignments, and position `[B, T]`, -1 before, with what their slots emit."""
    b = tl.program_id(0).to(tl.int64)
    slots = tl.minimum(tl.load(num_slots + b), max_slots).to(tl.int32)
    length = tl.minimum(tl.load(lengths + b), width).to(tl.int32)
    states = 2 * width + 1
    tokens += b * max_slots * width
    blanks += b * max_slots
    position += b * max_slots
    repeated += b * width
    table += b * max_slots * states
    dtype: tl.constexpr = table.dtype.element_ty
    for t in range(slots):
        for first in range(0, 2 * length + 1, TILE):
            s, exists, is_token, skips = states_of(first, repeated, length, TILE)
            stay, one, two = before(table, t, s, exists, skips, states)
            reached = tl.maximum(tl.maximum(stay, one), two)
            value = reached + weight_of(tokens, blanks, t, s, is_token, width, dtype)
            tl.store(table + t * states + s, value, mask=exists)
        tl.debug_barrier()
    in_blank, on_token = at_end(table, slots, length, states)
    whole = tl.maximum(in_blank, on_token)
    tl.store(score + b, whole)
    if whole > NEG_INF:
        state = 2 * length - ((length > 0) & (on_token >= in_blank)).to(tl.int32)
        for step in range(slots):
            t = slots - 1 - step
            is_token = state % 2 == 1
            tl.store(position + t, (state // 2).to(tl.int64), mask=is_token)
            again = tl.load(repeated + state // 2, mask=is_token, other=1)
            stay, one, two = before(table, t, state, t > 0, is_token & (state > 1) & (again == 0), states)
            back = tl.where(two > tl.maximum(stay, one), 2, tl.where(one > stay, 1, 0))
            state -= tl.where(t > 0, back, 0)
