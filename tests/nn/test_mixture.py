"""Heads mixed one at a time against the table of all heads."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from pcfgnat.nn.links import LinkConfig, Links
from pcfgnat.nn.mixture import mixed_rules, plain_mixed_rules

Given = tuple[Tensor, Tensor, Tensor, Tensor]


def operands(batch: int = 2, heads: int = 3, nodes: int = 4, block: int = 2) -> tuple[Given, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, heads, nodes, 5), (batch, heads, nodes, block, 5), (batch, heads, nodes, 5))
    vectors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    gate = torch.randn(batch, heads, nodes, generator=generator, dtype=torch.float64).log_softmax(1)
    later = torch.arange(nodes) > torch.arange(nodes)[:, None]
    legal = later[None, :, None].repeat(batch, 1, block, 1)
    legal[0, 0, 1:] = False  # the root has no left child
    parent, lefts, right, gate = (tensor.requires_grad_() for tensor in (*vectors, gate))
    return (parent, lefts, right, gate), legal


def test_values_and_gradients() -> None:
    given, legal = operands()
    weights = torch.randn(legal.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for function in (mixed_rules, plain_mixed_rules):
        table = function(*given, legal)
        loss = (table.masked_fill(~legal, 0.0) * weights).sum()
        found.append((table, *torch.autograd.grad(loss, given)))
    for fast, plain in zip(*found, strict=True):
        assert_close(fast, plain)
    sums = found[0][0][:, :-1].flatten(2).exp().sum(-1)
    assert_close(sums, torch.ones_like(sums))
    assert bool((found[0][0][:, -1] == -math.inf).all())  # nothing is legal for the last node


def test_derivatives_are_checked_numerically() -> None:
    given, legal = operands(batch=1, heads=2, nodes=3)

    def finite(parent: Tensor, lefts: Tensor, right: Tensor, gate: Tensor) -> Tensor:
        return mixed_rules(parent, lefts, right, gate, legal).masked_fill(~legal, 0.0)

    assert gradcheck(finite, given, fast_mode=True)
    assert gradgradcheck(finite, given, fast_mode=True)


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the size of the largest new tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.size = max(self.size, result.numel())
        return result


@pytest.mark.parametrize(("function", "factor"), [(mixed_rules, 1), (plain_mixed_rules, 8)])
def test_the_largest_table_has_one_head(function, factor: int) -> None:  # type: ignore[no-untyped-def]
    given, legal = operands(heads=8, nodes=60)
    with Largest() as largest:
        function(*given, legal)[legal].sum().backward()
    assert largest.size == factor * legal.numel()


@pytest.mark.parametrize("gate", [True, False])
def test_links_mix_alike_both_ways(gate: bool) -> None:
    links = Links(LinkConfig(heads=2, positions=False, gate=gate), width=10, positions=8, roles=3).double()
    _, legal = operands()
    features = torch.randn(2, 4, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    parent, right = links.vectors(0, features), links.vectors(2, features)
    lefts = links.vectors(1, features).unsqueeze(3).repeat(1, 1, 1, 2, 1) * torch.tensor([[1.0], [2.0]])
    scores = torch.einsum("bhkje,bhce->bhkjc", parent.unsqueeze(3) + lefts, right)
    scores = scores + (parent.unsqueeze(3) * lefts).sum(-1, keepdim=True)
    expected = links.mixed(scores.flatten(3), legal.flatten(2), features).view(legal.shape)
    assert_close(links.mixed_rules(parent, lefts, right, legal, features), expected)
