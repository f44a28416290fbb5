import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.nn.attention import (
    CrossAttention,
    KeyValueCache,
    SelfAttention,
    attend,
    bias_of,
    causal_bias,
    key_bias,
)
from pcfgnat.nn.config import TransformerConfig

SMALL = TransformerConfig(width=8, heads=2)


def one_head(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    """Attention of one query after the textbook."""
    scores = (key * query).sum(1) / math.sqrt(len(query)) + bias
    weights = scores.exp() / scores.exp().sum()
    return (weights.unsqueeze(1) * value).sum(0)


@pytest.fixture
def tensors() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    query = torch.randn(3, 4, 2, 5, dtype=torch.float64, requires_grad=True)
    keys_values = torch.randn(3, 6, 2, 2, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(3, 1, 4, 6) < 0.5
    mask[..., 0] = True
    return query, keys_values, bias_of(mask, query)


def test_is_what_the_textbook_says(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    query, keys_values, bias = tensors
    mixed = attend(query, keys_values, bias)
    for b in range(3):
        for i in range(4):
            heads = [
                one_head(query[b, i, h], keys_values[b, :, 0, h], keys_values[b, :, 1, h], bias[b, 0, i])
                for h in range(2)
            ]
            assert_close(mixed[b, i], torch.cat(heads))


@pytest.mark.parametrize("masked", [True, False])
def test_two_products_equal_the_fused_ones(
    tensors: tuple[Tensor, Tensor, Tensor], masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, keys_values, bias = tensors
    wanted = torch.randn(3, 4, 10, dtype=torch.float64)
    results = []
    for half in ((), (torch.float64,)):  # the dtypes that go by two products
        monkeypatch.setattr("pcfgnat.nn.attention.HALF", half)
        mixed = attend(query, keys_values, bias if masked else None)
        results.append((mixed, *torch.autograd.grad((mixed * wanted).sum(), [query, keys_values])))
    for fused, two_products in zip(*results, strict=True):
        assert_close(fused, two_products)


def test_dropped_weights_keep_the_mean(tensors: tuple[Tensor, Tensor, Tensor]) -> None:
    query, keys_values, bias = (tensor.detach() for tensor in tensors)
    drawn = torch.stack([attend(query, keys_values, bias, 0.3) for _ in range(1500)])
    error = drawn.std(0) / math.sqrt(len(drawn))
    assert bool(((drawn.mean(0) - attend(query, keys_values, bias)).abs() <= 5 * error + 1e-9).all())


def test_dropout_is_off_in_evaluation() -> None:
    x = torch.randn(2, 3, 8)
    attention = SelfAttention(TransformerConfig(width=8, heads=2, attention_dropout=0.5))
    assert not torch.equal(attention(x, None), attention(x, None))
    attention.eval()
    assert torch.equal(attention(x, None), attention(x, None))


def test_biases() -> None:
    like = torch.zeros((), dtype=torch.float64)
    hidden = -math.inf
    mask = torch.tensor([[True, True], [True, False]])
    bias = key_bias(mask, like)
    assert bias is not None
    assert bias.tolist() == [[[[0.0, 0.0]]], [[[0.0, hidden]]]]
    assert bias.dtype == torch.float64
    assert key_bias(mask[:1], like) is None
    assert key_bias(None, like) is None
    assert causal_bias(2, like).tolist() == [[[[0.0, hidden], [0.0, 0.0]]]]


def test_a_cache_grows_and_forgets() -> None:
    cache, steps = KeyValueCache(capacity=2), torch.randn(3, 9, 2, 2, 4)
    for end in (1, 2, 5, 6):
        assert torch.equal(cache.append(steps[:, cache.used : end]), steps[:, :end])
    rows = torch.tensor([2, 0, 0])
    cache.select(rows)
    assert torch.equal(cache.append(steps[rows, 6:]), steps[rows])


def test_selecting_from_an_empty_cache_does_nothing() -> None:
    cache = KeyValueCache()
    cache.select(torch.tensor([0]))
    assert cache.used == 0


def test_cross_attention_reads_the_memory_only() -> None:
    attention, memory, x = CrossAttention(SMALL), torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    together = attention(x, attention.keys_values(memory), None)
    alone = attention(x[:, 1:2], attention.keys_values(memory), None)
    assert together.shape == (2, 3, 8)
    assert_close(together[:, 1:2], alone)
