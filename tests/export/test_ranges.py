"""Ranges of what products read, and 8-bit products that use them or do without."""

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto

from pcfgnat.export.graph import LARGEST_WEIGHT, Graph, eight_bits, symmetric
from pcfgnat.export.ranges import MARGIN, activation_ranges, is_watched
from pcfgnat.networks.base import inference
from tests.support.zoo import made


def test_every_norm_has_a_range_that_holds() -> None:
    network = made("pcfg").float()
    found = activation_ranges(network)
    watched = {name: module for name, module in network.named_modules() if is_watched(name, module)}
    norms = {name: m for name, m in watched.items() if isinstance(m, torch.nn.LayerNorm)}
    assert set(found) == set(watched) > set(norms)
    for name, norm in norms.items():  # a normed row of width D has no number beyond √(D - 1)
        weight, bias = norm.weight.detach(), norm.bias.detach()
        most = (weight.abs() * (len(weight) - 1) ** 0.5 + bias.abs()).max()
        assert found[name] == symmetric(found[name][1])
        assert 0 < found[name][1] <= MARGIN * float(most) * 1.001
    inside = [own for name, own in found.items() if name.endswith("feed_forward.output")]
    assert inside
    assert all(MARGIN * -0.17001 <= low < 0 < high for low, high in inside)  # no gelu is below -0.17
    assert found == activation_ranges(network)
    with inference(network):
        assert not any(module._forward_hooks for module in watched.values())


def test_eight_bits_cover_a_range_and_have_zero() -> None:
    for low, high in (symmetric(3.0), (-0.17, 5.0), (0.0, 1.0), (-2.0, 0.0)):
        step, zero = eight_bits((low, high))
        assert 0 <= zero <= 255
        assert abs(-zero * step - low) <= step
        assert abs((255 - zero) * step - high) <= step
    step, zero = eight_bits(symmetric(127.0))
    assert step == pytest.approx(1.0)
    assert zero == 128
    for wrong in ((0.5, 1.0), (-1.0, -0.5), (0.0, 0.0)):
        with pytest.raises(ValueError, match="0 and something else"):
            eight_bits(wrong)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_of_eight_bits(known: bool, bias: bool) -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(5, 24)).astype(np.float32)
    rows[1] *= 1e-3
    rows[2] = 0
    weight = generator.normal(size=(7, 24)).astype(np.float32)
    offset = generator.normal(size=7).astype(np.float32) if bias else None
    graph = Graph(int8=True)
    x = graph.input("x", TensorProto.FLOAT, ["R", 24])
    if known:
        graph.ranges[x] = symmetric(float(np.abs(rows).max()))
    graph.output(graph.linear(x, weight, offset), "y")
    session = onnxruntime.InferenceSession(graph.model().SerializeToString())
    (found,) = session.run(None, {"x": rows})
    expected = rows @ weight.T + (0 if offset is None else offset)
    size = np.full((5, 1), np.abs(rows).max()) if known else np.abs(rows).max(axis=1, keepdims=True)
    # each of 24 products is off by half a step of its row and of its weight at most
    steps = size / 127 / 2 * np.abs(weight).sum(1) + np.abs(rows).sum(1, keepdims=True) * (
        np.abs(weight).max(1) / LARGEST_WEIGHT / 2
    )
    assert (np.abs(found - expected) <= steps * 1.05 + 1e-6).all()
    for i in range(5):  # no row depends on another
        np.testing.assert_array_equal(session.run(None, {"x": rows[i : i + 1]})[0], found[i : i + 1])
