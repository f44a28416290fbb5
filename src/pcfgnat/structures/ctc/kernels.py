"""Compiled CTC passes in log space; tokens and states as in reference.py, one sentence after another."""

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from pcfgnat.grammar.compiled import cached

NEG_INF = -math.inf
Kernel = TypeVar("Kernel", bound=Callable[..., object])
# weights of tokens [B, T, N] and blanks [B, T], repeats [B, N], slots [B], lengths [B]
Floats = NDArray[np.floating]
Problem = tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]


def jit(kernel: Kernel) -> Kernel:
    """Compile, without the interpreter's lock, and keep the result on disk."""
    return cast(Kernel, cached(numba.njit(nogil=True))(kernel))


@jit
def log_add(a: float, b: float, c: float) -> float:
    """log(exp(a) + exp(b) + exp(c)); NaN if one of them is."""
    if a < b:
        a, b = b, a
    if a < c:
        a, c = c, a
    if a == NEG_INF:
        return a + b + c
    return a + math.log(1.0 + math.exp(b - a) + math.exp(c - a))


@jit
def lowest_state(t: int, slots: int, length: int) -> int:
    """Lowest state from which the slots after t still reach the end."""
    return max(0, 2 * length + 1 - 2 * (slots - t))


@jit
def highest_state(t: int, length: int) -> int:
    """Highest state that slot t can be in."""
    return min(2 * length, 2 * t + 1)


@jit
def weight_of(tokens: Floats, blanks: Floats, t: int, state: int) -> float:
    """Log-weight of slot t emitting what this state stands for."""
    return np.float64(tokens[t, state // 2]) if state % 2 else np.float64(blanks[t])


@jit
def before(table: Floats, repeated: NDArray[np.bool_], t: int, state: int) -> tuple[float, float, float]:
    """Values after slot t - 1 of the three states that lead to this one: itself, one back, two back."""
    if t == 0:
        return (0.0 if state < 2 else NEG_INF), NEG_INF, NEG_INF
    one = table[t - 1, state - 1] if state > 0 else NEG_INF
    two = table[t - 1, state - 2] if state % 2 and state > 2 and not repeated[state // 2] else NEG_INF
    return table[t - 1, state], one, two


@jit
def fill(
    tokens: Floats,
    blanks: Floats,
    repeated: NDArray[np.bool_],
    slots: int,
    length: int,
    table: Floats,
    best: bool,
) -> float:
    """`table[t, state]`: all alignments of the slots up to t that end in this state; max if `best`."""
    table[:slots] = NEG_INF
    for t in range(slots):
        for state in range(lowest_state(t, slots, length), highest_state(t, length) + 1):
            a, b, c = before(table, repeated, t, state)
            reached = max(a, max(b, c)) if best else log_add(a, b, c)
            table[t, state] = reached + weight_of(tokens, blanks, t, state)
    last = table[slots - 1]
    on_token = last[2 * length - 1] if length > 0 else NEG_INF
    in_blank = last[2 * length]
    return max(in_blank, on_token) if best else log_add(in_blank, on_token, NEG_INF)


@jit
def forward_batch(problem: Problem, tables: Floats, log_z: Floats) -> None:
    """Fill `tables [B, T, S]` and the log-probabilities."""
    tokens, blanks, repeated, slots, lengths = problem
    for b in range(len(lengths)):
        log_z[b] = fill(tokens[b], blanks[b], repeated[b], slots[b], lengths[b], tables[b], False)


@jit
def backward_batch(
    problem: Problem, tables: Floats, log_z: Floats, weight: Floats, grad_tokens: Floats, grad_blanks: Floats
) -> None:
    """Hand the posterior mass back from slot to slot; add `weight` times it to the gradients."""
    tokens, blanks, repeated, all_slots, lengths = problem
    for b in range(len(lengths)):
        if log_z[b] == NEG_INF:
            continue
        slots, length, table = all_slots[b], lengths[b], tables[b]
        mass = np.zeros(2 * length + 1)
        for state in range(max(0, 2 * length - 1), 2 * length + 1):
            mass[state] = math.exp(table[slots - 1, state] - log_z[b])
        for t in range(slots - 1, -1, -1):
            earlier = np.zeros_like(mass)
            for state in range(lowest_state(t, slots, length), highest_state(t, length) + 1):
                if mass[state] == 0.0:
                    continue
                if state % 2:
                    grad_tokens[b, t, state // 2] += weight[b] * mass[state]
                else:
                    grad_blanks[b, t] += weight[b] * mass[state]
                if t == 0:
                    continue
                total = table[t, state] - weight_of(tokens[b], blanks[b], t, state)
                origins = before(table, repeated[b], t, state)
                for back in range(3):
                    if origins[back] > NEG_INF:
                        earlier[state - back] += mass[state] * math.exp(origins[back] - total)
            mass = earlier


@jit
def best_batch(problem: Problem, score: Floats, position: NDArray[np.int64]) -> None:
    """Best alignment of each target: enter into `position[b, t]` what slot t emits, -1 for a blank."""
    tokens, blanks, repeated, all_slots, lengths = problem
    table = np.empty((tokens.shape[1], 2 * tokens.shape[2] + 1))
    for b in range(len(lengths)):
        slots, length = all_slots[b], lengths[b]
        score[b] = fill(tokens[b], blanks[b], repeated[b], slots, length, table, True)
        if not score[b] > NEG_INF:
            continue
        state = 2 * length
        if length > 0 and table[slots - 1, state - 1] >= table[slots - 1, state]:
            state -= 1
        for t in range(slots - 1, -1, -1):
            if state % 2:
                position[b, t] = state // 2
            if t > 0:
                a, b_, c = before(table, repeated[b], t, state)
                if c > max(a, b_):
                    state -= 2
                elif b_ > a:
                    state -= 1
