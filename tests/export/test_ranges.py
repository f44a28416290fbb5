"""Ranges behind norms, and 8-bit products that use them or do without."""

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto

from pcfgnat.export.graph import LARGEST_WEIGHT, Graph
from pcfgnat.export.ranges import MARGIN, norm_ranges
from pcfgnat.networks.base import inference
from tests.support.zoo import made


def test_every_norm_has_a_range_that_holds() -> None:
    network = made("pcfg").float()
    found = norm_ranges(network)
    norms = {name: m for name, m in network.named_modules() if isinstance(m, torch.nn.LayerNorm)}
    assert set(found) == set(norms)
    for name, norm in norms.items():  # a normed row of width D has no number beyond √(D - 1)
        weight, bias = norm.weight.detach(), norm.bias.detach()
        most = (weight.abs() * (len(weight) - 1) ** 0.5 + bias.abs()).max()
        assert 0 < found[name] <= MARGIN * float(most) * 1.001
    assert found == norm_ranges(network)
    with inference(network):
        assert not any(module._forward_hooks for module in norms.values())


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
        graph.ranges[x] = float(np.abs(rows).max())
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
