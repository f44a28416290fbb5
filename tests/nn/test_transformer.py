from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from pcfgnat.nn import Decoder, Encoder, TokenEmbedding, TransformerConfig, initialise

SMALL = TransformerConfig(
    layers_encoder=2, layers_decoder=3, width=8, ffn=12, heads=2, dropout=0.0, max_positions=20
)
VARIANTS = [
    SMALL,
    replace(SMALL, pre_norm=False, activation="relu"),
    replace(SMALL, bert_init=True),
]


def made(module: nn.Module, config: TransformerConfig) -> Any:
    torch.manual_seed(0)
    initialise(module, config)
    return module.double().eval()


def inputs(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


@pytest.mark.parametrize("config", VARIANTS)
def test_padding_does_not_influence_the_encoder(config: TransformerConfig) -> None:
    encoder, x, mask = made(Encoder(config), config), inputs(2, 5), mask_of(5, 3)
    states = encoder(x, mask)
    garbage = x.masked_fill(~mask.unsqueeze(2), 1e6)
    assert_close(encoder(garbage, mask)[mask], states[mask])
    assert_close(encoder(x[1:, :3], None)[0], states[1, :3])


@pytest.mark.parametrize("config", VARIANTS)
@pytest.mark.parametrize("causal", [True, False])
def test_padding_does_not_influence_the_decoder(config: TransformerConfig, causal: bool) -> None:
    decoder = made(Decoder(config, causal), config)
    x, mask, memory, memory_mask = inputs(2, 6), mask_of(4, 6), inputs(2, 5, seed=2), mask_of(5, 3)
    states = decoder(x, mask, memory, memory_mask)
    garbage = decoder(
        x.masked_fill(~mask.unsqueeze(2), 1e6),
        mask,
        memory.masked_fill(~memory_mask.unsqueeze(2), -1e6),
        memory_mask,
    )
    assert_close(garbage[mask], states[mask])
    assert_close(decoder(x[:1, :4], None, memory[:1], None)[0], states[0, :4])
    assert_close(decoder(x[1:], None, memory[1:, :3], None)[0], states[1])


@pytest.mark.parametrize("causal", [True, False])
def test_a_causal_decoder_sees_no_later_position(causal: bool) -> None:
    decoder, memory = made(Decoder(SMALL, causal), SMALL), inputs(1, 4, seed=2)
    x = inputs(1, 5)
    changed = x.clone()
    changed[:, 3] *= -1
    same = torch.isclose(decoder(x, None, memory, None), decoder(changed, None, memory, None)).all(2)[0]
    assert same.tolist() == ([True, True, True, False, False] if causal else [False] * 5)


@pytest.mark.parametrize("config", VARIANTS)
def test_steps_equal_the_whole(config: TransformerConfig) -> None:
    decoder = made(Decoder(config, causal=True), config)
    x, memory, memory_mask = inputs(3, 7), inputs(3, 5, seed=2), mask_of(5, 3, 1)
    whole = decoder(x, None, memory, memory_mask)
    cache = decoder.start(memory, memory_mask)
    steps = [decoder.step(x[:, i : i + 1], None, cache) for i in range(4)]
    assert_close(torch.cat(steps, 1), whole[:, :4], rtol=0, atol=1e-10)
    rows = torch.tensor([2, 0])
    cache.select(rows)
    rest = [decoder.step(x[rows, i : i + 1], None, cache) for i in range(4, 7)]
    assert_close(torch.cat(rest, 1), whole[rows, 4:], rtol=0, atol=1e-10)


def test_hypotheses_side_by_side_see_their_own_past() -> None:
    decoder, memory = made(Decoder(SMALL, causal=True), SMALL), inputs(1, 4, seed=2)
    x = inputs(1, 5)  # x0, then x1 and x2 side by side, then x3 after x2 and x4 after x1
    cache = decoder.start(memory, None)
    decoder.step(x[:, :1], None, cache)
    second = decoder.step(x[:, 1:3], torch.tensor([[[1, 1, 0], [1, 0, 1]]]).bool(), cache)
    third = decoder.step(x[:, 3:], torch.tensor([[[1, 0, 1, 1, 0], [1, 1, 0, 0, 1]]]).bool(), cache)
    for path, states in (([0, 2, 3], (second[:, 1], third[:, 0])), ([0, 1, 4], (second[:, 0], third[:, 1]))):
        whole = decoder(x[:, path], None, memory, None)
        assert_close(whole[:, 1], states[0], rtol=0, atol=1e-10)
        assert_close(whole[:, 2], states[1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("config", VARIANTS)
def test_every_weight_gets_a_gradient(config: TransformerConfig) -> None:
    encoder, decoder = made(Encoder(config), config), made(Decoder(config, causal=False), config)
    memory_mask, mask = mask_of(5, 3), mask_of(6, 4)
    states = decoder(inputs(2, 6), mask, encoder(inputs(2, 5, seed=2), memory_mask), memory_mask)
    (states[mask] * inputs(10, seed=3)).sum().backward()
    for stack in (encoder, decoder):
        for name, weight in stack.named_parameters():
            assert bool(weight.grad.isfinite().all()), name
            assert bool(weight.grad.abs().max() > 0), name


@pytest.mark.parametrize("config", VARIANTS)
def test_depths_are_as_asked(config: TransformerConfig) -> None:
    deep = replace(config, layers_encoder=12, layers_decoder=1)
    assert len(Encoder(deep).layers) == 12
    assert len(Decoder(deep, causal=True).layers) == 1


def test_pre_norm_ends_with_a_norm_and_post_norm_in_one() -> None:
    for config in (SMALL, replace(SMALL, pre_norm=False)):
        states = made(Encoder(config), config)(100 * inputs(2, 5), None)
        assert_close(states.mean(2), torch.zeros(2, 5).double())
        assert_close(states.var(2, unbiased=False), torch.ones(2, 5).double(), rtol=1e-3, atol=0)


def test_first_values() -> None:
    config = TransformerConfig(layers_encoder=1, width=64, ffn=256, heads=2)
    encoder, tokens = Encoder(config), TokenEmbedding(100, 64)
    network = nn.ModuleList([encoder, tokens])
    initialise(network, config)
    deviations = {name: float(p.detach().std()) for name, p in encoder.named_parameters() if p.dim() == 2}
    assert deviations["layers.0.self_attention.project.weight"] == pytest.approx((1 / 64) ** 0.5, rel=0.05)
    assert deviations["layers.0.feed_forward.widen.weight"] == pytest.approx((2 / 320) ** 0.5, rel=0.05)
    shrunk = (2 / 320) ** 0.5 / 2**0.5  # there are two sub-layers
    assert deviations["layers.0.feed_forward.output.weight"] == pytest.approx(shrunk, rel=0.05)
    assert float(tokens.weight.detach().std()) == pytest.approx(64**-0.5, rel=0.05)
    initialise(network, replace(config, bert_init=True))
    for name, weight in network.named_parameters():
        if weight.dim() == 2:
            assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.05), name


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"layers_decoder": 0}, "layers_decoder must be at least 1, got 0"),
        ({"max_positions": -1}, "max_positions must be at least 1, got -1"),
        ({"dropout": 1.0}, r"dropout must be at least 0 and less than 1, got 1\.0"),
        ({"heads": 7}, "width must be a multiple of heads = 7, got 512"),
    ],
)
def test_bad_sizes_are_named(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TransformerConfig(**change)
