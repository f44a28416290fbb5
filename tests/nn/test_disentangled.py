"""The decoder of DisCo: no state knows anything of tokens that its position does not see."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.nn import DisentangledDecoder, TransformerConfig, initialise

SMALL = TransformerConfig(
    layers_encoder=1, layers_decoder=3, width=8, ffn=12, heads=2, dropout=0.0, max_positions=20
)
every_variant = pytest.mark.parametrize(
    "config", [SMALL, replace(SMALL, pre_norm=False, activation="relu"), replace(SMALL, bert_init=True)]
)
NODES = 5


def made(config: TransformerConfig) -> DisentangledDecoder:
    torch.manual_seed(0)
    decoder = DisentangledDecoder(config)
    initialise(decoder, config)
    return decoder.double().eval()


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_sets(seed: int) -> Tensor:
    """Any sets, of which none is empty."""
    visible = torch.rand(2, NODES, NODES, generator=torch.Generator().manual_seed(seed)) < 0.4
    visible[:, :, 0] = True
    return visible


@every_variant
def test_gradients_reach_exactly_the_tokens_that_are_seen(config: TransformerConfig) -> None:
    decoder, visible = made(config), random_sets(3)
    queries, memory = normal(2, NODES, seed=1), normal(2, 4, seed=2)
    tokens = normal(2, NODES, seed=4).requires_grad_()
    states = decoder(queries, tokens, visible, memory, None)
    for sentence in range(2):
        for node in range(NODES):
            weight = normal(1, seed=node)[0]
            (gradient,) = torch.autograd.grad(states[sentence, node] @ weight, tokens, retain_graph=True)
            assert not gradient[1 - sentence].any()
            assert torch.equal(gradient[sentence].abs().sum(1) > 0, visible[sentence, node])


@every_variant
def test_what_is_not_seen_may_be_anything(config: TransformerConfig) -> None:
    decoder, visible = made(config), random_sets(5)
    queries, tokens, memory = normal(2, NODES, seed=1), normal(2, NODES, seed=4), normal(2, 4, seed=2)
    states = decoder(queries, tokens, visible, memory, None)
    for node in range(NODES):
        rubbish = torch.where(visible[:, node, :, None], tokens, 1e3 * normal(2, NODES, seed=6))
        assert_close(decoder(queries, rubbish, visible, memory, None)[:, node], states[:, node])


@every_variant
def test_padding_of_the_source_changes_nothing(config: TransformerConfig) -> None:
    decoder, visible = made(config), random_sets(7)
    queries, tokens, memory = normal(2, NODES, seed=1), normal(2, NODES, seed=4), normal(2, 4, seed=2)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    states = decoder(queries, tokens, visible, memory, mask)
    alone = decoder(queries[1:], tokens[1:], visible[1:], memory[1:, :2], None)
    assert_close(states[1:], alone)


def test_outputs_of_sub_layers_are_shrunk_with_pre_norm() -> None:
    torch.manual_seed(0)
    plain, shrunk = DisentangledDecoder(SMALL), DisentangledDecoder(SMALL)
    torch.manual_seed(1)
    initialise(plain, replace(SMALL, pre_norm=False))
    torch.manual_seed(1)
    initialise(shrunk, SMALL)
    for name, weight in shrunk.named_parameters():
        factor = 3 if name.endswith("output.weight") else 1  # √9 of nine sub-layers
        if "norm" not in name:
            assert_close(weight * factor, plain.get_parameter(name))
