"""DisCo: what a node predicts depends on the tokens that it sees, and on no other."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.grammar.canvas import seen_nodes
from pcfgnat.networks import CanvasIds, DiscoNetwork, Memory, inference
from pcfgnat.networks.emissions import all_emissions
from tests.support.sentences import BOS, EOS, source_of
from tests.support.zoo import UNDROPPED, made

IDS = torch.tensor([[BOS, 5, 6, 7, 8, EOS], [BOS, 9, 4, EOS, 0, 0]])
LENGTHS = torch.tensor([6, 4])
CANVAS = CanvasIds(IDS, LENGTHS)
BLANK = 1


def disco(copy_input: bool = False) -> DiscoNetwork:
    network = made("disco", UNDROPPED, copy_input)
    assert isinstance(network, DiscoNetwork)
    return network


def asked(seed: int) -> Tensor:
    return torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(seed)) < 0.5


def log_probs(network: DiscoNetwork, memory: Memory, canvas: CanvasIds, visible: Tensor) -> Tensor:
    return all_emissions(network, network.fill_visible(memory, canvas, visible))


@pytest.mark.parametrize("copy_input", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_nodes_predict_the_same_whatever_they_do_not_see(seed: int, copy_input: bool) -> None:
    network, visible = disco(copy_input), asked(seed)
    seen = seen_nodes(visible, torch.arange(6), LENGTHS)
    with inference(network):
        memory = network.encode(source_of(5, 3))
        found = log_probs(network, memory, CANVAS, visible)
        for node in range(1, 5):
            rubbish = torch.where(seen[:, node], IDS, 11)
            other = log_probs(network, memory, CanvasIds(rubbish, LENGTHS), visible)
            assert_close(other[:, node], found[:, node], rtol=0.0, atol=0.0)
        changed = torch.where(seen[0, 2] & (IDS[0] > EOS), 11, IDS[0])
        if not torch.equal(changed, IDS[0]):
            other = log_probs(network, memory, CanvasIds(torch.stack([changed, IDS[1]]), LENGTHS), visible)
            assert not torch.allclose(other[0, 2], found[0, 2])


def test_gradients_reach_the_embeddings_of_what_is_seen_only() -> None:
    network, memory = disco(), disco().encode(source_of(5, 3))
    visible = asked(1)
    seen = seen_nodes(visible, torch.arange(6), LENGTHS)
    embedded = list[Tensor]()

    def keep(_module: torch.nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        embedded.append(output.retain_grad() or output)  # type: ignore[func-returns-value]

    network.embeddings.tokens.register_forward_hook(keep)
    states = network.fill_visible(memory, CANVAS, visible).states
    for node in range(1, 5):
        (gradient,) = torch.autograd.grad(states[0, node, 0], embedded[0], retain_graph=True)
        assert torch.equal(gradient[0].abs().sum(1) > 0, seen[0, node])
        assert not gradient[1].any()


def test_no_node_sees_itself_or_padding_and_all_see_bos_and_eos() -> None:
    everything, nothing = torch.ones(2, 6, 6, dtype=torch.bool), torch.zeros(2, 6, 6, dtype=torch.bool)
    node = torch.arange(6)
    for given, between in ((everything, True), (nothing, False)):
        seen = seen_nodes(given, node, LENGTHS)
        assert seen[0, 2].tolist() == [True, between, False, between, between, True]
        assert seen[1, 1].tolist() == [True, False, between, True, False, False]
        assert seen[1, 5].tolist() == [True, between, between, True, False, False]
        numpy = seen_nodes(given.numpy(), node.numpy(), LENGTHS.numpy())
        assert numpy.tolist() == seen.tolist()


def test_filling_shows_what_is_not_blank() -> None:
    network = disco()
    ids = torch.tensor([[BOS, 5, BLANK, 7, BLANK, EOS], [BOS, BLANK, 4, EOS, 0, 0]])
    shown = torch.tensor([[0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0]], dtype=torch.bool)
    with inference(network):
        memory = network.encode(source_of(5, 3))
        expected = log_probs(network, memory, CanvasIds(ids, LENGTHS), shown.unsqueeze(1).expand(-1, 6, -1))
        found = all_emissions(network, network.fill(memory, CanvasIds(ids, LENGTHS)))
        assert torch.equal(found, expected)


def test_batching_changes_nothing() -> None:
    network, visible = disco(copy_input=True), asked(4)
    with inference(network):
        together = log_probs(network, network.encode(source_of(5, 3)), CANVAS, visible)
        source = source_of(5, 3).to_lists()[1]
        memory = network.encode(network.padded([source]))
        alone = log_probs(network, memory, CanvasIds(IDS[1:, :4], LENGTHS[1:]), visible[1:, :4, :4])
        assert_close(together[1, :4], alone[0])
