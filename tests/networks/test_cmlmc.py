"""CMLMC: a network of slots to which a causal view and concatenated positions were added."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import CanvasIds, CMLMCConfig, CMLMCNetwork, SlotsConfig, SlotsNetwork
from pcfgnat.nn import MappedEmbeddings, TransformerConfig, TwoViewDecoder
from pcfgnat.nn.correcting import TwoViewLayer
from tests.support.sentences import VOCABULARY, source_of
from tests.support.zoo import UNDROPPED, made

CANVAS = CanvasIds(torch.tensor([[2, 1, 5, 1, 3, 0], [2, 7, 1, 3, 0, 0]]), torch.tensor([5, 4]))
SOURCE = source_of(6, 3)


def pair(transformer: TransformerConfig) -> tuple[CMLMCNetwork, SlotsNetwork]:
    torch.manual_seed(0)
    network = CMLMCNetwork(CMLMCConfig(transformer), VOCABULARY).double().eval()
    slots = SlotsNetwork(SlotsConfig(transformer), VOCABULARY).double().eval()
    slots.load_state_dict({name: network.state_dict()[name] for name in slots.state_dict()})
    return network, slots


@pytest.mark.parametrize("config", [UNDROPPED, replace(UNDROPPED, share_embeddings=False, bert_init=True)])
def test_begins_as_a_network_of_slots(config: TransformerConfig) -> None:
    network, slots = pair(config)
    memory, expected = network.encode(SOURCE), slots.encode(SOURCE)
    assert_close(memory.states, expected.states, atol=1e-12, rtol=0)
    found = network.fill(memory, CANVAS).states
    assert_close(found, slots.fill(expected, CANVAS).states, atol=1e-12, rtol=0)
    assert_close(network.length_scores(memory), slots.length_scores(expected))


def test_what_was_added_learns() -> None:
    network, slots = pair(UNDROPPED)
    network.fill(network.encode(SOURCE), CANVAS).states.square().sum().backward()  # type: ignore[no-untyped-call]
    added = set(network.state_dict()) - set(slots.state_dict())
    writes = {name for name in added if "_map." in name or "causal_attention.output." in name}
    assert len(writes) == 4 + 2 * UNDROPPED.layers_decoder
    weights = dict(network.named_parameters())
    for name in writes:
        gradient = weights[name].grad
        assert gradient is not None
        assert gradient.any()


def test_the_causal_view_sees_nothing_later() -> None:
    torch.manual_seed(0)
    layer = TwoViewLayer(UNDROPPED).double()
    x = torch.randn(1, 6, UNDROPPED.width, dtype=torch.float64, requires_grad=True)
    decoder = TwoViewDecoder(UNDROPPED)
    assert all(isinstance(own, TwoViewLayer) for own in decoder.layers)
    torch.nn.init.zeros_(layer.self_attention.output.weight)  # leaves the other sub-layers, which do not mix
    torch.nn.init.zeros_(layer.self_attention.output.bias)
    memory = torch.randn(1, 3, 2, UNDROPPED.heads, 8, dtype=torch.float64)
    states = layer(x, None, memory, None)
    for node in range(6):
        (gradient,) = torch.autograd.grad(states[0, node].sum(), x, retain_graph=True)
        seen = gradient[0].abs().sum(1) > 0
        assert seen.tolist() == [place <= node for place in range(6)]


def test_every_position_of_a_canvas_sees_all_others() -> None:
    network = made("cmlmc", UNDROPPED)
    memory = network.encode(source_of(5))

    def states(ids: list[int]) -> torch.Tensor:
        return network.fill(memory, CanvasIds(torch.tensor([ids]), torch.tensor([len(ids)]))).states[0]

    first, second = states([2, 1, 1, 5, 3]), states([2, 1, 1, 6, 3])
    assert bool(((first - second).abs().amax(1) > 1e-6).all())


def test_a_map_is_a_map_of_token_and_position_side_by_side() -> None:
    network = made("cmlmc", UNDROPPED)
    embeddings = network.embeddings
    assert isinstance(embeddings, MappedEmbeddings)
    ids = torch.tensor([[2, 7, 3]])
    found = embeddings.target(ids, torch.ones(1, 3, dtype=torch.bool))
    for place, token in enumerate(ids[0].tolist()):
        both = torch.cat(
            [embeddings.tokens.weight[token] * 4.0, embeddings.target_positions.weight[place]]
        )  # √16 of width 16
        expected = embeddings.target_map.weight @ both + embeddings.target_map.bias
        assert_close(found[0, place], expected)
        assert_close(embeddings.target_step(ids[:, place : place + 1], place)[0, 0], expected)
    assert not torch.allclose(found, embeddings.source(ids, torch.ones(1, 3, dtype=torch.bool)))


def test_padding_changes_nothing() -> None:
    network = made("cmlmc", UNDROPPED)
    together = network.fill(network.encode(SOURCE), CANVAS).states
    for row, (source, length) in enumerate(zip(SOURCE.to_lists(), CANVAS.lengths.tolist(), strict=True)):
        alone = network.fill(
            network.encode(network.padded([source])),
            CanvasIds(CANVAS.ids[row : row + 1, :length], CANVAS.lengths[row : row + 1]),
        )
        assert_close(together[row, :length], alone.states[0], atol=1e-10, rtol=0)
