"""A step: what it adds up, what it leaves alone, and that it can be taken back."""

from pathlib import Path

import pytest
import torch

from pcfgnat.checkpoints.weights import own_weights
from pcfgnat.networks import NETWORKS, Batch, Network
from pcfgnat.objectives import ObjectiveError
from pcfgnat.structures import Padded
from pcfgnat.training.ema import Ema
from pcfgnat.training.learner import Learner
from pcfgnat.training.optimiser import decayed_names
from tests.training.small_runs import small_run

CPU = torch.device("cpu")
QUIET = ("network.transformer.dropout=0.0", "network.transformer.attention_dropout=0.0")
SOURCES = [[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 3], [2, 4, 3]]
TARGETS = [[2, 9, 3], [2, 5, 5, 6, 3], [2, 4, 6, 3], [2, 8, 3]]


def batch(*places: int) -> Batch:
    source, target = (Padded.from_lists([side[place] for place in places]) for side in (SOURCES, TARGETS))
    return Batch(source, target)


def learner(*changes: str) -> Learner:
    config = small_run(Path("data"), Path("run"), *changes)
    torch.manual_seed(0)
    return Learner(NETWORKS[config.network_name][0](config.network_config(), 12), config, CPU)


def same(one: Network, other: Network) -> bool:
    return all(torch.equal(own_weights(one)[name], weight) for name, weight in own_weights(other).items())


@pytest.mark.parametrize("name", ["autoregressive", "slots"])
def test_gradients_of_unequal_batches_add_up_to_those_of_one(name: str) -> None:
    whole, pieces = (learner(f"network.name={name}", *QUIET) for _ in range(2))
    one = whole.step([batch(0, 1, 2, 3)], 0.1, 0.0, 0)
    other = pieces.step([batch(1), batch(0, 2, 3)], 0.1, 0.0, 0)
    assert other.loss == pytest.approx(one.loss, rel=1e-5)
    assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    assert other.metrics == pytest.approx(one.metrics, rel=1e-5)
    assert (other.tokens, other.skipped) == (one.tokens, one.skipped)


def test_gradients_that_are_not_finite_change_nothing() -> None:
    sick = learner()
    before = {name: weight.clone() for name, weight in own_weights(sick.network).items()}
    parameter = next(iter(sick.network.parameters()))
    parameter.register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[no-untyped-call]
    result = sick.step([batch(0, 1)], 0.1, 0.0, 0)
    assert result.fault == "not finite"
    assert all(torch.equal(weight, before[name]) for name, weight in own_weights(sick.network).items())


def test_a_step_without_a_sentence_that_counts_changes_nothing() -> None:
    idle = learner("network.name=autoregressive")
    before = {name: weight.clone() for name, weight in own_weights(idle.network).items()}
    empty = Batch(Padded.from_lists([[2, 5, 3]]), Padded.from_lists([[2]]))
    result = idle.step([empty], 0.1, 0.0, 0)
    assert (result.fault, result.skipped) == ("no target", 1)
    assert all(torch.equal(weight, before[name]) for name, weight in own_weights(idle.network).items())


def test_what_is_restored_goes_on_in_the_same_way() -> None:
    first = learner("ema.decay=0.9")
    for step in range(3):
        first.step([batch(0, 1)], 0.01, 0.0, step)
    tensors = {name: tensor.clone() for name, tensor in first.tensors().items()}
    first.step([batch(2, 3)], 0.01, 0.0, 3)
    second = learner("ema.decay=0.9", "seed=2")
    second.restore(tensors, "memory")
    second.step([batch(2, 3)], 0.01, 0.0, 3)
    assert same(first.network, second.network)
    assert same(first.validated, second.validated)
    assert not same(first.network, first.validated)


def test_the_running_mean_follows_slowly() -> None:
    network = learner().network
    ema = Ema(network, 0.99)
    start = network.embeddings.tokens.weight.detach().clone()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
    ema.update(network, 0)  # decay (1 + 0) / (10 + 0)
    torch.testing.assert_close(own_weights(ema.network)["embeddings.tokens.weight"], start + 0.9)
    ema.update(network, 10**6)  # decay 0.99
    torch.testing.assert_close(own_weights(ema.network)["embeddings.tokens.weight"], start + 0.901)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_only_matrices_of_linear_maps_decay(name: str) -> None:
    network = learner(f"network.name={name}").network
    decayed = decayed_names(network)
    shapes = {name: parameter.dim() for name, parameter in network.named_parameters()}
    assert decayed
    assert not {name for name in decayed if shapes[name] < 2}
    assert not {name for name in decayed if name.endswith(("tokens.weight", "positions.weight"))}
    linear = {
        f"{path}.weight" for path, module in network.named_modules() if isinstance(module, torch.nn.Linear)
    }
    assert linear <= decayed


def test_an_objective_that_does_not_fit_is_refused_at_once() -> None:
    with pytest.raises(ObjectiveError, match="trains networks that fill a canvas, got AutoregressiveNetwork"):
        learner("network.name=autoregressive", "objective.name=likelihood")
    with pytest.raises(ObjectiveError, match="trains autoregressive networks, got SlotsNetwork"):
        learner("objective.name=cross_entropy")


def test_what_a_loss_is_a_mean_of_is_the_objectives_business() -> None:
    """Two batches of one sentence each, of 2 and of 4 tokens that count: the step weighs accordingly."""
    for name, counts in (("slots", (1, 1)), ("autoregressive", (2, 4))):
        chosen = learner(f"network.name={name}", *QUIET)
        alone = [learner(f"network.name={name}", *QUIET).step([batch(i)], 0.1, 0.0, 0).loss for i in (0, 1)]
        expected = sum(loss * count for loss, count in zip(alone, counts, strict=True)) / sum(counts)
        assert chosen.step([batch(0), batch(1)], 0.1, 0.0, 0).loss == pytest.approx(expected, rel=1e-5)
