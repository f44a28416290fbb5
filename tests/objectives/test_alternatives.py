"""Several targets of a source as alternatives: their probabilities are added."""

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import Batch
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.objectives import Likelihood
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, sentences
from tests.support.zoo import UNDROPPED, made

SOURCES = sentences(5, 5, 4)
TARGETS = [[BOS, 5, 6, EOS], [BOS, 7, 8, EOS], [BOS, 4, 4, 9, EOS]]
GROUPS = [0, 0, 1]
every_network = pytest.mark.parametrize("name", ["pcfg", "pcfg of depth 2", "dag", "ctc"])


def batch(rows: list[int], groups: list[int] | None) -> Batch:
    pairs = [(SOURCES[0] if GROUPS[row] == 0 else SOURCES[2], TARGETS[row]) for row in rows]
    source, target = (Padded.from_lists([pair[side] for pair in pairs]) for side in (0, 1))
    return Batch(source, target, None, None if groups is None else torch.tensor(groups))


@every_network
def test_is_the_logarithm_of_the_sum_in_value_and_gradient(name: str) -> None:
    network = made(name, UNDROPPED)
    loss = Likelihood().loss(network, batch([0, 1, 2], GROUPS), 0.0)
    log_probs = [
        -Likelihood().loss(network, batch([row], None), 0.0).value * len(TARGETS[row]) for row in range(3)
    ]
    distribution = translation_distribution(network, batch([0, 1, 2], None).source)
    emitted = network.emitted(batch([0, 1, 2], None).target)
    assert_close(torch.stack(log_probs).detach(), distribution.log_prob(emitted))
    both = (log_probs[0].exp() + log_probs[1].exp()).log()
    exact = (-both / 4 - log_probs[2] / 5) / 2
    assert_close(loss.value, exact, rtol=0, atol=1e-10)
    assert (loss.sentences, loss.tokens, loss.skipped) == (2, 9, 0)
    weights = list(network.parameters())
    mine, theirs = (
        torch.autograd.grad(value, weights, create_graph=True, materialize_grads=True)
        for value in (loss.value, exact)
    )
    for of_mine, of_theirs in zip(mine, theirs, strict=True):
        assert_close(of_mine, of_theirs, rtol=0, atol=1e-9)


@every_network
def test_one_target_each_is_the_usual_loss(name: str) -> None:
    network = made(name)
    plain, grouped = (Likelihood().loss(network, batch([0, 2], g), 0.0) for g in (None, [0, 1]))
    assert_close(plain.value, grouped.value)
    assert plain.metrics == pytest.approx(grouped.metrics)


def test_impossible_targets_leave_the_others() -> None:
    network = made("dag")
    endless = [BOS, *range(4, 12), *range(4, 12), EOS]
    source = Padded.from_lists([SOURCES[0], SOURCES[0], SOURCES[2]])
    some = Batch(source, Padded.from_lists([endless, TARGETS[1], endless]), None, torch.tensor(GROUPS))
    loss = Likelihood().loss(network, some, 0.0)
    assert (loss.sentences, loss.skipped) == (1, 1)
    assert_close(loss.value, Likelihood().loss(network, batch([1], None), 0.0).value)
    loss.value.backward()  # type: ignore[no-untyped-call]
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_slots_predict_the_mean_of_the_lengths() -> None:
    network = made("slots")
    loss = Likelihood().loss(network, batch([0, 1, 2], GROUPS), 0.0)
    alone = [Likelihood().loss(network, batch([row], None), 0.0).metrics["length_loss"] for row in range(3)]
    assert loss.metrics["length_loss"] == pytest.approx(((alone[0] + alone[1]) / 2 + alone[2]) / 2)
