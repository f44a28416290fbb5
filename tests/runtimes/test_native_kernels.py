"""Blocks of products and rows against numpy, in every set of instructions that this processor has."""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding

from pcfgnat.runtimes.native.kernels import attention, output, products
from pcfgnat.runtimes.native.kernels.blocks import (
    float_block,
    gathering_block,
    int8_block,
    transposing_block,
)
from pcfgnat.runtimes.native.kernels.instructions import INSTRUCTIONS
from pcfgnat.runtimes.native.kernels.operations import MODULES, NAMES, operations
from pcfgnat.runtimes.native.kernels.products import column_entries, pack
from pcfgnat.runtimes.native.kernels.row_code import RowCode
from pcfgnat.text.shortlist import Shortlist

NEEDED = {"vnni512": "avx512vnni", "vnni256": "avxvnni", "avx2": "avx2", "plain": None}
LANES = sorted({instructions.lanes for instructions in INSTRUCTIONS.values()})


def available(name: str) -> bool:
    feature = NEEDED[name]
    return feature is None or bool(binding.get_host_cpu_features().get(feature))


def table() -> int:
    return int(operations().ctypes.data)


def place(array: np.ndarray) -> int:
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


def called(operation: Any, count: int) -> Callable[..., Any]:
    """Return an operation as a function of so many integers behind the table."""
    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"operation": operation}
    exec(f"def run(ops, {names}):\n    return operation(ops, {names})", scope)
    run = numba.njit(scope["run"])
    return lambda *given: run(table(), *given)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_products_of_bytes_are_exact(name: str) -> None:
    if not available(name):
        pytest.skip(f"this processor has no {NEEDED[name]}")
    instructions = INSTRUCTIONS[name]
    block: Any = int8_block(instructions)

    @numba.njit
    def run(count: Any, a: Any, stride: Any, b: Any, out: Any, scales: Any, columns: Any) -> None:
        block(
            count, a.ctypes.data, stride, b.ctypes.data, a.shape[1] // 4, out.ctypes.data, out.strides[0],
            scales.ctypes.data, 4, columns.ctypes.data,
        )  # fmt: skip

    draw = np.random.default_rng(1)
    inner, columns = 24, instructions.panel
    for count in range(1, instructions.rows + 1):
        a = draw.integers(0, 256, (count, inner)).astype(np.uint8)
        a[0], weight = 255, draw.integers(-63, 64, (columns, inner)).astype(np.int8)
        weight[0] = 63  # the largest sums that there can be
        scale, offset = draw.random(columns).astype(np.float32), draw.random(columns).astype(np.float32)
        begin, own = draw.integers(-1000, 1000, columns), draw.random(count).astype(np.float32)
        out = np.full((count + 1, columns), 7, np.float32)
        entries = column_entries(begin, scale, offset, instructions.lanes)
        run(count, a, a.strides[0], pack(weight, instructions.lanes), out, own, entries)
        total = a.astype(np.int64) @ weight.T.astype(np.int64) + begin
        assert out[:count] == pytest.approx(total * scale * own[:, None] + offset, rel=1e-5, abs=1e-4)
        assert (out[count] == 7).all()  # nothing is written behind the last row


@pytest.mark.parametrize("vectors", [1, 2, 4])
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_products_of_floats(name: str, vectors: int) -> None:
    if not available(name):
        pytest.skip(f"this processor has no {NEEDED[name]}")
    instructions = INSTRUCTIONS[name]
    block: Any = float_block(instructions, vectors)

    @numba.njit
    def run(count: Any, a: Any, b: Any, out: Any) -> None:
        block(
            count, a.ctypes.data, a.strides[0], b.ctypes.data, b.strides[0], a.shape[1], out.ctypes.data,
            out.strides[0],
        )  # fmt: skip

    draw = np.random.default_rng(1)
    for count in range(1, instructions.float_rows + 1):
        a = draw.normal(size=(count, 11)).astype(np.float32)
        b = draw.normal(size=(11, vectors * instructions.lanes)).astype(np.float32)
        out = np.full((count + 1, b.shape[1]), 7, np.float32)
        run(count, a, b, out)
        assert out[:count] == pytest.approx(a @ b, abs=1e-5)
        assert (out[count] == 7).all()


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_squares_change_rows_and_columns(name: str) -> None:
    if not available(name):
        pytest.skip(f"this processor has no {NEEDED[name]}")
    instructions = INSTRUCTIONS[name]
    square: Any = transposing_block(instructions)
    gathered: Any = gathering_block(instructions)

    @numba.njit
    def run(a: Any, out: Any, places: Any, again: Any) -> None:
        square(a.ctypes.data, a.strides[0], out.ctypes.data, out.strides[0])
        gathered(places.ctypes.data, 8, again.ctypes.data, again.strides[0])

    lanes = instructions.lanes
    a = np.random.default_rng(1).integers(0, 1 << 30, (lanes, lanes + 3)).astype(np.int32)
    order = np.random.default_rng(2).permutation(lanes)
    places = a.ctypes.data + a.strides[0] * order
    out, again = np.zeros((lanes, lanes + 1), np.int32), np.zeros((lanes, lanes + 1), np.int32)
    run(a, out, places, again)
    assert (out[:, :lanes] == a[:, :lanes].T).all()
    assert (again[:, :lanes] == a[order, 2 : lanes + 2].T).all()
    assert (out[:, lanes:] == 0).all()


@pytest.mark.parametrize(("count", "columns"), [(1, 16), (7, 48), (13, 112)])
def test_products_of_whole_matrices(count: int, columns: int) -> None:
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(count, 9)).astype(np.float32), draw.normal(size=(9, columns)).astype(np.float32)
    out = np.empty((count, columns), np.float32)
    multiply = called(products.multiply, 9)
    multiply(count, 9, columns, place(a), a.strides[0], place(b), b.strides[0], place(out), out.strides[0])
    assert out == pytest.approx(a @ b, abs=1e-5)


def test_a_weight_that_does_not_fill_panels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"multiples of 32 and 4, got \(31, 8\)"):
        pack(np.zeros((31, 8), np.int8), 16)


def test_the_table_has_all_operations() -> None:
    found = operations()
    assert len(found) == len(NAMES) == sum(map(len, MODULES.values()))
    assert (found != 0).all()
    assert len(set(found.tolist())) == len(found)


@pytest.mark.parametrize("lanes", LANES)
def test_gelu_and_relu(lanes: int) -> None:
    code: Any = RowCode.of(lanes)
    gelu, relu = code.gelu, code.relu

    @numba.njit
    def run(x: Any, y: Any, steps: Any) -> Any:
        return gelu(x.ctypes.data, steps), relu(y.ctypes.data, steps)

    x = np.concatenate([np.linspace(-12, 12, 1021), [0.0, 300.0, -300.0]]).astype(np.float32)
    y, kept = x.copy(), x.copy()
    most = run(x, y, len(x) // lanes)
    expected = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in kept.tolist()]
    assert x == pytest.approx(expected, abs=2e-6)
    assert (y == kept.clip(0)).all()
    assert most == (np.abs(x).max(), y.max())


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("width", [16, 48, 256])
def test_norms_and_bytes(lanes: int, width: int) -> None:
    code: Any = RowCode.of(lanes)
    norm, to_bytes = code.norm, code.to_bytes

    @numba.njit
    def run(x: Any, more: Any, scale: Any, offset: Any, out: Any, narrow: Any, own: Any, steps: Any) -> Any:
        most = norm(
            x.ctypes.data, more.ctypes.data, scale.ctypes.data, offset.ctypes.data, out.ctypes.data, steps
        )
        to_bytes(out.ctypes.data, most, narrow.ctypes.data, own.ctypes.data, steps)
        return most

    draw = np.random.default_rng(1)
    x, more, scale, offset = draw.normal(3, 2, size=(4, width)).astype(np.float32)
    before, out, narrow = x.copy(), np.zeros(width, np.float32), np.zeros(width, np.uint8)
    own = np.zeros(1, np.float32)
    most = run(x, more, scale, offset, out, narrow, own, width // lanes)
    row = before.astype(np.float64) + more
    expected = (row - row.mean()) / np.sqrt(row.var() + 1e-5) * scale + offset
    assert x == pytest.approx(row, abs=1e-5)
    assert out == pytest.approx(expected, abs=1e-4)
    assert most == np.abs(out).max()
    assert np.abs((narrow.astype(np.float32) - 128) * own - out).max() <= own[0] * 0.501


@pytest.mark.parametrize("lanes", LANES)
def test_a_row_of_zeros_stays_one(lanes: int) -> None:
    code: Any = RowCode.of(lanes)
    size, to_bytes = code.size, code.to_bytes

    @numba.njit
    def run(x: Any, narrow: Any, own: Any, steps: Any) -> None:
        to_bytes(x.ctypes.data, size(x.ctypes.data, steps), narrow.ctypes.data, own.ctypes.data, steps)

    narrow, own = np.zeros(32, np.uint8), np.ones(1, np.float32)
    run(np.zeros(32, np.float32), narrow, own, 32 // lanes)
    assert (narrow == 128).all()
    assert 0 < own[0] < 1e-30


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("count", [1, 5, 16, 37, 300])
def test_softmax(lanes: int, count: int) -> None:
    code: Any = RowCode.of(lanes)
    softmax = code.softmax

    @numba.njit
    def run(x: Any, count: Any, steps: Any, factor: Any) -> None:
        softmax(x.ctypes.data, count, steps, factor)

    steps = (count + lanes - 1) // lanes
    x = np.random.default_rng(count).normal(-3, 30, size=(steps + 1) * lanes).astype(np.float32)
    x[count : steps * lanes] = np.nan  # whatever lies behind
    kept = x.copy()
    run(x, count, steps, np.float32(0.5))
    expected = np.exp(0.5 * kept[:count].astype(np.float64))
    assert x[:count] == pytest.approx(expected / expected.sum(), abs=1e-6)
    assert (x[count : steps * lanes] == 0).all()
    assert (x[steps * lanes :] == kept[steps * lanes :]).all()


@pytest.mark.parametrize("lanes", LANES)
def test_exponentials_logarithms_and_places(lanes: int) -> None:
    code: Any = RowCode.of(lanes)
    exp, log, hide, best, pair = code.exp, code.log, code.hide, code.best, code.pair

    @numba.njit
    def run(x: Any, y: Any, z: Any, w: Any, steps: Any) -> Any:
        log(y.ctypes.data, np.float32(1e-37), steps)
        total, highest = exp(x.ctypes.data, np.float32(-2.0), steps), hide(z.ctypes.data, 3, 40, steps)
        return total, highest, best(w.ctypes.data, 5, steps)

    @numba.njit
    def paired(a: Any, b: Any, out: Any, steps: Any) -> Any:
        return pair(a.ctypes.data, b.ctypes.data, out.ctypes.data, steps)

    draw, count = np.random.default_rng(1), 64
    x = draw.uniform(-120, 80, count).astype(np.float32)
    y = np.exp(draw.uniform(-80, 80, count)).astype(np.float32)
    y[3] = 0
    z, w = draw.normal(size=(2, count)).astype(np.float32)
    w[[2, 17, 40]] = 9.0
    kept = [array.copy() for array in (x, y, z)]
    total, highest, where = run(x, y, z, w, count // lanes)
    shifted = (kept[0] - np.float32(2)).astype(np.float64)
    expected = np.exp(shifted)
    assert x == pytest.approx(np.where(shifted > -87, expected, 0), rel=1e-6, abs=1e-37)
    assert total == pytest.approx(expected.sum(), rel=1e-5)
    assert y == pytest.approx(np.log(np.maximum(kept[1], 1e-37).astype(np.float64)), abs=2e-5)
    assert (z[4:40] == kept[2][4:40]).all()
    assert (z[:4] < -1e29).all()
    assert (z[40:] < -1e29).all()
    assert highest == kept[2][4:40].max()
    assert where == 17  # the first of equal ones that may be taken
    out = np.zeros(count, np.float32)
    assert paired(kept[0], kept[2], out, count // lanes) == pytest.approx(float(kept[0] @ kept[2]), rel=1e-4)
    assert (out == kept[0] + kept[2]).all()


def expected_attention(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, visible: np.ndarray
) -> np.ndarray:
    scores = query @ keys.T / math.sqrt(query.shape[1])
    scores = np.where(visible, scores, -np.inf)
    share = np.exp(scores - scores.max(1, keepdims=True))
    found: np.ndarray = share / share.sum(1, keepdims=True) @ values
    return found


@pytest.mark.parametrize("how", ["all", "some", "growing"])
def test_attention(how: str) -> None:
    draw = np.random.default_rng(1)
    heads, head, queries, seen, room = 2, 16, 5, 19, 32
    width = heads * head
    query = draw.normal(size=(queries, width)).astype(np.float32)
    memory = draw.normal(size=(room, 2 * width)).astype(np.float32)
    visible = np.ones((queries, seen), bool)
    if how == "some":
        visible = draw.random((queries, seen)) < 0.6
        visible[:, :1] = True
    elif how == "growing":
        visible = np.arange(seen) < np.arange(seen - queries + 1, seen + 1)[:, None]
    keys = np.zeros((width, room), np.float32)
    scores, out = np.empty((queries, room), np.float32), np.zeros((queries, width), np.float32)
    called(products.transpose, 6)(seen, width, place(memory), memory.strides[0], place(keys), keys.strides[0])
    assert (keys[:, :seen] == memory[:seen, :width].T).all()
    called(attention.attend, 16)(
        heads, head, queries, place(query), query.strides[0], seen, int(how == "growing"), place(keys),
        keys.strides[0], place(memory) + 4 * width, memory.strides[0],
        place(visible) if how == "some" else 0, visible.strides[0], place(scores), place(out), out.strides[0],
    )  # fmt: skip
    for h in range(heads):
        part = slice(h * head, (h + 1) * head)
        values = memory[:seen, width + h * head :][:, :head]
        expected = expected_attention(query[:, part], memory[:seen, part], values, visible)
        assert out[:, part] == pytest.approx(expected, abs=1e-5)


def shortlist(vocabulary: int) -> Shortlist:
    draw = np.random.default_rng(1)
    counts = draw.integers(0, 6, vocabulary)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    candidates = draw.integers(0, vocabulary, offsets[-1]).astype(np.uint32)
    return Shortlist(draw.choice(vocabulary, 7, replace=False).astype(np.uint32), offsets, candidates)


@pytest.mark.parametrize("vocabulary", [64, 67])
def test_types_of_a_shortlist(vocabulary: int) -> None:
    own = shortlist(vocabulary)
    always = np.zeros(vocabulary, np.uint8)
    always[own.frequent] = 1
    parts = (always, own.offsets, own.candidates)
    described = np.array([*(place(part) for part in parts), len(own.frequent)], np.int64)
    marks, found = np.full(vocabulary + 8, 9, np.uint8), np.zeros(vocabulary, np.int64)
    choose = called(output.choose_types, 6)
    for ids in ([2, 9, 40, 3], [2, 3], [63, 62, 61]):
        source = np.array(ids, np.int64)
        count = choose(place(source), len(ids), place(described), vocabulary, place(marks), place(found))
        assert found[:count].tolist() == own.types(ids).tolist()
    assert marks[vocabulary + 7] == 9  # nothing is written behind its room


@pytest.mark.parametrize("chosen", [3, 28, 29, 1500])
def test_the_best_of_some_tokens(chosen: int) -> None:
    draw, width, rows, vocabulary = np.random.default_rng(chosen), 32, 15, 2000
    tokens = draw.integers(-63, 64, (vocabulary, width)).astype(np.int8)
    entries = np.zeros((vocabulary, 3), np.float32)
    entries[:, 0] = (-128 * tokens.sum(1, dtype=np.int32)).view(np.float32)
    entries[:, 1] = scale = draw.uniform(0.01, 0.02, vocabulary).astype(np.float32)
    states, row_scales = draw.integers(0, 256, (rows, width)).astype(np.uint8), draw.random(rows, np.float32)
    types = np.sort(draw.choice(np.arange(4, vocabulary), chosen, replace=False)).astype(np.int64)
    padded = (chosen + 4 + 31) // 32 * 32
    memory = np.zeros(64 + padded * (width + 12 + 16) + 256, np.uint8)
    weight = place(memory) + -place(memory) % 64
    called(output.pack_types, 6)(place(types), chosen, width, place(tokens), place(entries), weight)
    score, where = np.zeros(rows, np.float32), np.zeros(rows, np.int64)
    special = np.zeros((rows, 6), np.float32)
    work = np.zeros(64 + 4 * products.ROWS * output.BLOCK, np.uint8)
    called(output.best_tokens, 8)(
        rows,
        place(states),
        place(row_scales),
        weight,
        place(score),
        place(where),
        place(special),
        place(work),
    )
    looked_at = np.concatenate([np.arange(4), types])
    logits = ((states.astype(np.int64) - 128) @ tokens[looked_at].T.astype(np.int64)) * row_scales[:, None]
    logits = logits * scale[looked_at]
    log_probs = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True))
    log_probs -= logits.max(1, keepdims=True)
    assert (where == log_probs[:, 4:].argmax(1)).all()
    assert score == pytest.approx(log_probs[:, 4:].max(1), abs=1e-4)
    assert special[:, :4] == pytest.approx(log_probs[:, :4], abs=1e-4)
