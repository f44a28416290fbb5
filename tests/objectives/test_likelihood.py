"""Likelihood of every one-pass network: what it is, what is left out of it, and where gradients go."""

import math

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.networks import Batch, CanvasNetwork, DAGConfig, DAGNetwork, SlotsConfig, SlotsNetwork
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.nn import LinkConfig
from pcfgnat.objectives import Glancing, Likelihood, Loss
from pcfgnat.structures import CTC, Padded
from tests.support.lattices import ctc_oracle
from tests.support.oracle import log_sum
from tests.support.sentences import (
    BOS,
    EOS,
    VOCABULARY,
    batch_of,
    one,
    sentences,
    source_of,
    with_garbage,
)
from tests.support.zoo import CANVAS, GLANCING, SMALL, UNDROPPED, made

every_network = pytest.mark.parametrize("name", list(CANVAS))

# all can be derived, and all are shorter than their source by one
DERIVABLE = ((5, 4), (3, 2), (7, 6), (4, 3))


def loss_of(network: CanvasNetwork, batch: Batch, objective: Likelihood = GLANCING) -> Loss:
    return objective.loss(network, batch, 0.0)


@every_network
def test_is_minus_log_prob_by_length(name: str) -> None:
    network, batch = made(name), batch_of(*DERIVABLE)
    log_probs = translation_distribution(network, batch.source).log_prob(network.emitted(batch.target))
    expected = [-value / length for value, (_, length) in zip(log_probs.tolist(), DERIVABLE, strict=True)]
    loss = loss_of(network, batch)
    assert loss.metrics["nll"] == pytest.approx(sum(expected) / 4, abs=1e-10)
    assert loss.value.item() == pytest.approx(loss.metrics["nll"] + loss.metrics.get("length_loss", 0.0))
    assert ("length_loss" in loss.metrics) == (network.length is not None)
    assert (loss.sentences, loss.tokens, loss.skipped) == (4, 15, 0)
    assert Likelihood.weight == "sentences"


@every_network
@pytest.mark.parametrize("copy_input", [False, True])
def test_padding_and_batching_change_nothing(name: str, copy_input: bool) -> None:
    network, batch = made(name, copy_input=copy_input), batch_of((7, 3), (2, 4), (5, 2), (7, 6))
    loss = loss_of(network, batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(loss_of(network, garbage).value, loss.value)
    alone = [loss_of(network, one(batch, index)) for index in range(4)]
    together = sum(single.value.item() for single in alone) / 4
    assert loss.value.item() == pytest.approx(together, abs=1e-10)
    assert loss.tokens == sum(single.tokens for single in alone)
    assert loss.skipped == 0


@every_network
def test_padding_changes_nothing_in_single_precision(name: str) -> None:
    network, batch = made(name).float(), batch_of((7, 3), (2, 4), (5, 2), (7, 6))
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    alone = [loss_of(network, one(batch, index)).value.item() for index in range(4)]
    assert loss_of(network, garbage).value.item() == pytest.approx(sum(alone) / 4, abs=1e-4)


@every_network
@pytest.mark.parametrize("force_emit", [False, True])
def test_every_weight_gets_a_gradient(name: str, force_emit: bool) -> None:
    network = made(name, copy_input=True).train()
    objective = Likelihood(Glancing(0.5, 0.1, force_emit))
    loss_of(network, batch_of(*DERIVABLE), objective).value.backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


@every_network
@pytest.mark.parametrize("training", [False, True])
def test_what_cannot_be_derived_is_left_out(name: str, training: bool) -> None:
    little = Likelihood(Glancing(0.05, 0.05))  # of so few tokens nothing is shown, so nothing is random
    network = made(name, UNDROPPED).train(training)
    impossible = [[BOS], []] if network.length is not None else [[BOS], [], sentences(38)[0]]
    possible = sentences(5, seed=1)[0]
    targets = Padded.from_lists([possible, *impossible])
    batch = Batch(source_of(*[4] * len(targets.lengths)), targets)
    loss, alone = loss_of(network, batch, little), loss_of(network, one(batch, 0), little)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 5, len(impossible))
    assert_close(loss.value, alone.value)
    gradients = [torch.autograd.grad(found.value, list(network.parameters())) for found in (loss, alone)]
    for left, right in zip(*gradients, strict=True):
        assert_close(left, right, rtol=1e-6, atol=1e-9)


@every_network
@pytest.mark.parametrize("target", [[], [BOS]])
@pytest.mark.parametrize("training", [False, True])
def test_nothing_to_learn_from_is_a_loss_of_nothing(name: str, target: list[int], training: bool) -> None:
    network = made(name).train(training)
    loss = loss_of(network, Batch(source_of(4, 3), Padded.from_lists([target, target])))
    assert (loss.value.item(), loss.sentences, loss.tokens, loss.skipped) == (0.0, 0, 0, 2)
    loss.value.backward()  # type: ignore[no-untyped-call]
    for weight in network.parameters():
        assert weight.grad is None or not bool(weight.grad.any())


@every_network
def test_what_is_not_a_number_is_not_left_out(name: str) -> None:
    network, batch = made(name), batch_of(*DERIVABLE)
    network.embeddings.target_positions.weight.data[2] = math.nan
    loss = loss_of(network, batch)
    assert math.isnan(loss.value.item())
    assert loss.sentences > 0


@every_network
def test_bad_targets_are_named(name: str) -> None:
    with pytest.raises(ValueError, match="ids must be in 0 … 11, got -1 … 3"):
        loss_of(made(name), Batch(source_of(4), Padded.from_lists([[BOS, -1, EOS]])))


def test_alignments_of_ctc_are_enumerated() -> None:
    network, source = made("ctc"), Padded(torch.tensor([[5]]), torch.tensor([1]))  # two slots
    canvas = translation_distribution(network, source)
    assert isinstance(canvas, CTC)
    for target in ([BOS, 5, EOS], [BOS, 5, 6, EOS], [BOS, EOS]):
        expected = log_sum([score for score, _ in ctc_oracle(canvas, 0).of(target[1:-1])])
        loss = loss_of(network, Batch(source, Padded.from_lists([target])))
        assert loss.value.item() == pytest.approx(-expected / len(target), abs=1e-10)


@pytest.mark.parametrize("impossible", [[4, 5, 6, 7, 8], [4, 4, 4], [4, BLANK]])
def test_what_does_not_fit_into_the_slots_of_ctc_is_left_out(impossible: list[int]) -> None:
    network = made("ctc")
    targets = Padded.from_lists([[BOS, 4, 5, EOS], [BOS, *impossible, EOS]])
    batch = Batch(source_of(2, 2), targets)  # four slots each
    loss = loss_of(network, batch)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 4, 1)
    assert_close(loss.value, loss_of(network, one(batch, 0)).value)


def test_targets_longer_than_the_graph_are_left_out() -> None:
    torch.manual_seed(0)
    config = DAGConfig(SMALL, upsampling=1, transitions=LinkConfig(heads=2))
    network, batch = DAGNetwork(config, VOCABULARY).double().eval(), batch_of((3, 3), (3, 4))
    loss = loss_of(network, batch)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 3, 1)
    assert_close(loss.value, loss_of(network, one(batch, 0)).value)


def plain_slots() -> SlotsNetwork:
    torch.manual_seed(0)
    return SlotsNetwork(SlotsConfig(SMALL), VOCABULARY).double().eval()


@pytest.mark.parametrize(("source", "target"), [(5, 5), (5, 3), (3, 8), (2, 150), (40, 2)])
def test_the_length_costs_its_cross_entropy(source: int, target: int) -> None:
    network, states = plain_slots(), list[torch.Tensor]()
    assert network.length is not None
    network.encoder.register_forward_hook(lambda _module, _inputs, output: states.append(output))
    loss = loss_of(network, batch_of((source, target)), Likelihood(length_weight=0.7))
    scores = network.length(states[0][0].mean(0)).float().log_softmax(0)
    label = min(target - source + SAME_LENGTH, LENGTH_CLASSES - 1)
    assert loss.metrics["length_loss"] == pytest.approx(-0.7 * scores[label].item(), abs=1e-6)
    assert loss.value.item() == pytest.approx(loss.metrics["nll"] + loss.metrics["length_loss"], abs=1e-6)


def test_the_longest_target_of_slots_is_named() -> None:
    with pytest.raises(ValueError, match="a sentence must have at most 168 positions, got 169"):
        loss_of(plain_slots(), batch_of((4, 169)))


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan])
def test_the_length_must_count(weight: float) -> None:
    with pytest.raises(ValueError, match=f"length_weight must be positive, got {weight}"):
        Likelihood(length_weight=weight)


@every_network
def test_glancing_is_off_unless_asked_for(name: str) -> None:
    network, batch = made(name).train(), batch_of((5, 4))
    assert not Likelihood().glancing.enabled
    assert "revealed" not in loss_of(network, batch, Likelihood()).metrics
    assert "revealed" in loss_of(network, batch, GLANCING).metrics
