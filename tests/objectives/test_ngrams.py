"""Fuzzy alignment: against all derivations in value and gradient, and what it does in training."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.networks import Batch, CanvasIds, CanvasNetwork
from pcfgnat.networks.emissions import all_emissions
from pcfgnat.objectives import Glancing, Loss, Ngrams, ObjectiveError, Step
from pcfgnat.structures import DAG, RHPCFG, Padded, SupportTree
from tests.support.ngrams import EnumeratedGrammar, dag_leaves
from tests.support.sentences import BOS, EOS, batch_of, one, source_of, with_garbage
from tests.support.zoo import UNDROPPED, any_network, made

NETWORKS = ("pcfg", "pcfg of depth 2", "dag")
every_network = pytest.mark.parametrize("name", NETWORKS)


def loss_of(network: CanvasNetwork, batch: Batch, objective: Ngrams | None = None) -> Loss:
    return (objective or Ngrams()).loss(network, batch, 0.0)


def enumerated(network: CanvasNetwork, source: list[int]) -> EnumeratedGrammar:
    """All derivations of a source, with probabilities over the whole vocabulary and their gradients."""
    memory = network.encode(Padded.from_lists([source]))
    canvas = network.fill(memory, CanvasIds.blank(network.canvas_lengths(memory, None)))
    found = network.distribution(canvas, all_emissions(network, canvas))
    if isinstance(found, DAG):
        return EnumeratedGrammar(SupportTree(int(canvas.lengths), 0), dag_leaves(found), 0)
    assert isinstance(found, RHPCFG)
    scores = found.scores
    return EnumeratedGrammar(found.tree, (scores.chain, scores.prefix, scores.emit), 0)


def expected_score(grammar: EnumeratedGrammar, target: list[int], n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Precision, brevity penalty and length by the definitions."""
    length = grammar.length()
    windows = torch.stack([chance * max(len(nodes) - n + 1, 0) for chance, nodes in grammar.structures])
    brevity = torch.clamp(1 - len(target) / length, max=0).exp()
    return grammar.matched(target, n) / windows.sum(), brevity, length


@every_network
@pytest.mark.parametrize("n", [1, 2, 3])
def test_is_the_score_of_all_derivations_in_value_and_gradient(name: str, n: int) -> None:
    network = made(name, UNDROPPED)
    source, target = [BOS, EOS], [BOS, 5, 5, 7, 5, 5, EOS]
    loss = loss_of(network, Batch(Padded.from_lists([source]), Padded.from_lists([target])), Ngrams(n=n))
    precision, brevity, length = expected_score(enumerated(network, source), target, n)
    assert_close(loss.value, -precision * brevity, rtol=0, atol=1e-10)
    figures = {"precision": precision, "brevity": brevity, "length_ratio": length / len(target)}
    assert {key: loss.metrics[key] for key in figures} == pytest.approx(
        {key: float(value.detach()) for key, value in figures.items()}, abs=1e-10
    )
    weights = list(network.parameters())
    mine, exact = (  # with create_graph the output layer leaves out no small gradient
        torch.autograd.grad(value, weights, create_graph=True, materialize_grads=True)
        for value in (loss.value, -precision * brevity)
    )
    for of_mine, of_exact in zip(mine, exact, strict=True):
        assert_close(of_mine, of_exact, rtol=0, atol=1e-10)


@every_network
@pytest.mark.parametrize("n", [1, 2, 3])
def test_padding_and_batching_change_nothing(name: str, n: int) -> None:
    network, batch, objective = made(name), batch_of((7, 3), (2, 4), (5, 2), (7, 6)), Ngrams(n=n)
    loss = loss_of(network, batch, objective)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(loss_of(network, garbage, objective).value, loss.value)
    alone = [loss_of(network, one(batch, index), objective).value.item() for index in range(4)]
    assert loss.value.item() == pytest.approx(sum(alone) / 4, abs=1e-10)
    assert -1 <= loss.value.item() < 0


@every_network
def test_no_target_is_too_long(name: str) -> None:
    network = made(name)
    batch = Batch(source_of(2, 2), Padded.from_lists([[BOS, *range(4, 12)] * 6 + [EOS], [BOS, 5, EOS]]))
    loss = loss_of(network, batch)
    assert (loss.sentences, loss.skipped) == (2, 0)
    assert math.isfinite(loss.value.item())


@every_network
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_weight_gets_a_gradient_under_glancing(name: str, n: int) -> None:
    network = made(name, copy_input=True).train()
    objective = Ngrams(Glancing(0.5, 0.1), n=n)
    loss = loss_of(network, batch_of((5, 4), (3, 3), (7, 6)), objective)
    assert 0 < loss.metrics["revealed"] < 1
    loss.value.backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


@every_network
@pytest.mark.parametrize("target", [[], [BOS]])
def test_nothing_to_learn_from_is_a_loss_of_nothing(name: str, target: list[int]) -> None:
    network = made(name)
    loss = loss_of(network, Batch(source_of(4, 3), Padded.from_lists([target, target])))
    assert (loss.value.item(), loss.sentences, loss.skipped) == (0.0, 0, 2)
    loss.value.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is None or not bool(weight.grad.any()) for weight in network.parameters())


@pytest.mark.parametrize("n", [0, 4])
def test_n_has_a_range(n: int) -> None:
    with pytest.raises(ValueError, match=f"n must be 1, 2 or 3, got {n}"):
        Ngrams(n=n)


@pytest.mark.parametrize("name", ["ctc", "slots", "autoregressive"])
def test_only_networks_whose_ngrams_can_be_counted(name: str) -> None:
    with pytest.raises(ObjectiveError, match="n-grams train pcfg and dag networks, got "):
        Step(any_network(name), Ngrams())
