"""Blocks of products and rows against numpy, in every set of instructions that this processor has."""

import math
from typing import Any

import numba
import numpy as np
import pytest
from llvmlite import binding

from pcfgnat.runtimes.native.kernels import rows
from pcfgnat.runtimes.native.kernels.attention import attend
from pcfgnat.runtimes.native.kernels.instructions import INSTRUCTIONS, float_block, int8_block
from pcfgnat.runtimes.native.kernels.products import column_entries, multiply, pack

NEEDED = {"vnni512": "avx512vnni", "vnni256": "avxvnni", "avx2": "avx2", "plain": None}


def available(name: str) -> bool:
    feature = NEEDED[name]
    return feature is None or bool(binding.get_host_cpu_features().get(feature))


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_products_of_bytes_are_exact(name: str) -> None:
    if not available(name):
        pytest.skip(f"this processor has no {NEEDED[name]}")
    instructions = INSTRUCTIONS[name]
    block = int8_block(instructions)

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
    block = float_block(instructions, vectors)

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


@pytest.mark.parametrize(("count", "columns"), [(1, 16), (7, 48), (13, 112)])
def test_products_of_whole_matrices(count: int, columns: int) -> None:
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=(count, 9)).astype(np.float32), draw.normal(size=(9, columns)).astype(np.float32)
    out = np.empty((count, columns), np.float32)
    multiply(
        count, 9, columns, a.ctypes.data, a.strides[0], b.ctypes.data, b.strides[0], out.ctypes.data,
        out.strides[0],
    )  # fmt: skip
    assert out == pytest.approx(a @ b, abs=1e-5)


def test_a_weight_that_does_not_fill_panels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"multiples of 32 and 4, got \(31, 8\)"):
        pack(np.zeros((31, 8), np.int8), 16)


def test_gelu() -> None:
    x = np.concatenate([np.linspace(-12, 12, 999), [0.0]]).astype(np.float32)[None]
    expected = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x[0].tolist()]
    rows.gelu(x, 0)
    assert x[0] == pytest.approx(expected, abs=2e-6)


def test_norm() -> None:
    draw = np.random.default_rng(1)
    x, norms = (draw.normal(3, 2, size=size).astype(np.float32) for size in ((2, 48), (1, 2, 48)))
    out = np.zeros_like(x)
    rows.normalise(x, 1, norms, 0, out)
    row = x[1].astype(np.float64)
    expected = (row - row.mean()) / np.sqrt(row.var() + 1e-5) * norms[0, 0] + norms[0, 1]
    assert out[1] == pytest.approx(expected, abs=1e-5)
    assert (out[0] == 0).all()


@pytest.mark.parametrize("size", [1, 5, 16, 37, 300])
def test_softmax_and_maxima(size: int) -> None:
    x = np.random.default_rng(size).normal(-3, 30, size=(1, size + 2)).astype(np.float32)
    kept = x.copy()
    assert rows.largest_of(x, 0, 1, size + 1) == x[0, 1:-1].max()
    assert rows.largest_size(x, 0) == np.abs(x).max()
    rows.softmax(x, 0, 1, size + 1, np.float32(0.5))
    expected = np.exp(0.5 * kept[0, 1:-1].astype(np.float64))
    assert x[0, 1:-1] == pytest.approx(expected / expected.sum(), abs=1e-6)
    assert x[0, [0, -1]].tolist() == kept[0, [0, -1]].tolist()


def test_rows_of_bytes() -> None:
    x = np.random.default_rng(1).normal(size=(3, 50)).astype(np.float32)
    x[2] = 0
    out, scales = np.zeros(x.shape, np.uint8), np.zeros(3, np.float32)
    for row in range(3):
        rows.quantise(x, row, out, scales)
    assert np.abs((out.astype(np.float32) - 128) * scales[:, None] - x).max() <= scales.max() * 0.501
    assert (out[2] == 128).all()


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked: bool) -> None:
    draw = np.random.default_rng(1)
    heads, head, queries, keys = 2, 16, 5, 19
    width = heads * head
    query = draw.normal(size=(queries, width)).astype(np.float32)
    memory = draw.normal(size=(keys, 2 * width)).astype(np.float32)
    visible = draw.random((queries, keys + 3)) < 0.6 if masked else np.empty((0, 0), bool)
    visible[:, :1] = True
    out = np.zeros((queries, width), np.float32)
    attend(query, 0, (0, queries), memory, 0, (0, keys), heads, visible, out)
    for h in range(heads):
        part = slice(h * head, (h + 1) * head)
        scores = query[:, part] @ memory[:, part].T / math.sqrt(head)
        if masked:
            scores = np.where(visible[:, :keys], scores, -np.inf)
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        assert out[:, part] == pytest.approx(share @ memory[:, width + h * head :][:, :head], abs=1e-5)
