"""AXE and OAXE against all paths and all permutations, on the log-probabilities of a real network."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from pcfgnat.networks import Batch, CanvasIds, SlotsConfig, SlotsNetwork
from pcfgnat.networks.emissions import all_emissions
from pcfgnat.objectives import AXE, OAXE, Likelihood, Loss, ObjectiveError, Step
from pcfgnat.objectives.slots import SlotObjective
from pcfgnat.structures import Padded
from tests.support.aligned import cheapest_order, cheapest_path
from tests.support.sentences import BOS, EOS, VOCABULARY, batch_of, one, source_of, with_garbage
from tests.support.zoo import UNDROPPED, any_network, opinionated

SOURCE, TARGET = [BOS, 4, 7, 9, EOS], [BOS, 5, 5, 8, EOS]
WORDS = len(TARGET) - 2
either = pytest.mark.parametrize(
    "objective", [AXE(skip_penalty=2.0, slots_per_token=1.3), OAXE(), OAXE(cross_entropy=0.5)], ids=str
)


def slots(blank: bool, seed: int = 0, factor: float = 3.0) -> SlotsNetwork:
    """A network that finds some of the tokens probable."""
    torch.manual_seed(seed)
    network = opinionated(SlotsNetwork(SlotsConfig(UNDROPPED, copy_input=True, blank=blank), VOCABULARY))
    assert isinstance(network.decoder.norm, nn.LayerNorm)
    network.decoder.norm.weight.data *= factor
    return network


def network_for(objective: SlotObjective) -> SlotsNetwork:
    return slots(blank=isinstance(objective, AXE))


def loss_of(network: SlotsNetwork, objective: SlotObjective | Likelihood, batch: Batch | None = None) -> Loss:
    pair = Batch(Padded.from_lists([SOURCE]), Padded.from_lists([TARGET]))
    return objective.loss(network, batch or pair, 0.25)


def log_probs(network: SlotsNetwork, size: int) -> Tensor:
    """Log-probabilities of the whole vocabulary at every slot of a canvas, with gradients."""
    memory = network.encode(Padded.from_lists([SOURCE]))
    canvas = network.fill(memory, CanvasIds.blank(torch.tensor([size])))
    return all_emissions(network, canvas)[0]


def cross_entropy(network: SlotsNetwork, batch: Batch) -> float:
    """The mean over sentences of the mean over their words, one sentence after the other."""
    total = 0.0
    for index, target in enumerate(batch.target.to_lists()):
        memory = network.encode(one(batch, index).source)
        canvas = network.fill(memory, CanvasIds.blank(torch.tensor([len(target)])))
        own = all_emissions(network, canvas)[0][range(1, len(target) - 1), target[1:-1]]
        total -= float(own.mean().detach())
    return total / len(batch.target.lengths)


def assert_same(network: SlotsNetwork, mine: Tensor, exact: Tensor) -> None:
    """Equal values, and equal gradients of every weight but those of the length."""
    assert_close(mine, exact, rtol=0, atol=1e-10)
    weights = [weight for name, weight in network.named_parameters() if not name.startswith("length.")]
    found = [
        torch.autograd.grad(value, weights, create_graph=True, materialize_grads=True)
        for value in (mine, exact)
    ]
    for of_mine, of_exact in zip(*found, strict=True):
        assert_close(of_mine, of_exact, rtol=0, atol=1e-9)


def without_length(network: SlotsNetwork, objective: SlotObjective) -> Tensor:
    """The loss of the tokens alone."""
    assert loss_of(network, objective).metrics["length_loss"] > 0
    network.length = None
    return loss_of(network, objective).value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("penalty", "share", "size"), [(1.0, 1.0, 5), (2.0, 1.0, 5), (1.5, 1.5, 7)])
def test_axe_is_the_best_of_all_paths(penalty: float, share: float, size: int, seed: int) -> None:
    network = slots(blank=True, seed=seed)
    objective = AXE(label_smoothing=0.0, skip_penalty=penalty, slots_per_token=share)
    found = log_probs(network, size)
    inner = found[1:-1]
    exact = cheapest_path(inner[:, TARGET[1:-1]], inner[:, 0], penalty) / WORDS
    assert_same(network, without_length(network, objective), exact)


def test_smoothing_acts_on_the_entries_of_the_path() -> None:
    network, epsilon = slots(blank=True), 0.3
    plain = without_length(slots(blank=True), AXE(label_smoothing=0.0, skip_penalty=1e6))
    smooth = without_length(network, AXE(label_smoothing=epsilon, skip_penalty=1e6))
    found = log_probs(network, len(TARGET))[1:-1]
    means = -found.mean(1).sum() / WORDS  # with so great a penalty every slot emits its own token
    assert_close(smooth, (1 - epsilon) * plain + epsilon * means, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_axe_that_skips_nothing_is_cross_entropy(seed: int) -> None:
    network, batch = slots(blank=True, seed=seed), batch_of((5, 4), (3, 6), (4, 3))
    plain = cross_entropy(network, batch)
    aligned = loss_of(network, AXE(label_smoothing=0.0, skip_penalty=1e6), batch)
    assert aligned.metrics["aligned_loss"] == pytest.approx(plain, abs=1e-9)
    likelihood = loss_of(network, Likelihood(), batch)
    assert aligned.metrics["length_loss"] == pytest.approx(likelihood.metrics["length_loss"])
    assert (aligned.metrics["blanks"], aligned.metrics["skipped_tokens"]) == (0, 0)
    free = loss_of(network, AXE(label_smoothing=0.0), batch)
    assert free.metrics["aligned_loss"] <= plain + 1e-9


@pytest.mark.parametrize(
    "objective", [AXE(slots_per_token=1.3), OAXE(least_probability=0.0), OAXE(cross_entropy=0.5)], ids=str
)
def test_bos_and_eos_cost_nothing(objective: SlotObjective) -> None:
    network = network_for(objective)
    states: list[Tensor] = []
    network.decoder.register_forward_hook(lambda module, inputs, output: states.append(output))
    loss = loss_of(network, objective)
    (gradient,) = torch.autograd.grad(loss.value, states)
    assert not bool(gradient[0, [0, -1]].any())
    assert bool(gradient[0, 1:-1].any())


@pytest.mark.parametrize(
    ("share", "lengths"), [(1.0, [2, 3, 12]), (1.1, [2, 4, 13]), (1.25, [2, 4, 15]), (2.0, [2, 4, 22])]
)
def test_slots_per_token_are_rounded_up(share: float, lengths: list[int]) -> None:
    assert AXE(slots_per_token=share).canvas_lengths(torch.tensor([2, 3, 12])).tolist() == lengths


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("least", [0.0, 0.15, 0.5])
def test_oaxe_is_the_best_of_all_orders(least: float, seed: int) -> None:
    network = slots(blank=False, seed=seed)
    found = log_probs(network, len(TARGET))
    own = found[1:-1][:, TARGET[1:-1]]
    picked = own[range(len(own)), cheapest_order(own)]
    exact = -(picked * (picked.exp() > least)).sum() / WORDS
    assert_same(network, without_length(network, OAXE(label_smoothing=0.0, least_probability=least)), exact)


def test_oaxe_smooths_only_what_is_kept() -> None:
    network, epsilon = slots(blank=False, factor=1.0), 0.2
    found = log_probs(network, len(TARGET))
    own = found[1:-1][:, TARGET[1:-1]]
    picked = own[range(len(own)), cheapest_order(own)]
    least = sum(sorted(picked.exp().tolist())[:2]) / 2  # one pair is left out
    kept = picked.exp() > least
    assert kept.tolist().count(False) == 1
    plain = -picked[kept].sum()
    means = -found[1 + kept.nonzero().flatten()].mean(1).sum()
    exact = ((1 - epsilon) * plain + epsilon * means) / WORDS
    objective = OAXE(label_smoothing=epsilon, least_probability=least)
    assert loss_of(network, objective).metrics["left_out"] == pytest.approx(1 / 3)
    assert_same(network, without_length(network, objective), exact)


def test_the_order_of_the_target_does_not_matter_to_oaxe() -> None:
    network, objective = slots(blank=False), OAXE()
    source = Padded.from_lists([SOURCE])
    first, second = (
        loss_of(network, objective, Batch(source, Padded.from_lists([[BOS, *order, EOS]])))
        for order in ([5, 9, 8], [8, 5, 9])
    )
    assert_close(first.value, second.value)


def test_oaxe_costs_at_most_what_cross_entropy_does_and_may_begin_with_it() -> None:
    network, batch = slots(blank=False), batch_of((5, 4), (3, 6), (4, 3))
    plain = cross_entropy(network, batch)

    def cost(objective: OAXE, progress: float) -> float:
        return objective.loss(network, batch, progress).metrics["aligned_loss"]

    whole = OAXE(label_smoothing=0.0, least_probability=0.0)
    assert cost(whole, 0.0) < plain
    mixed = OAXE(label_smoothing=0.0, least_probability=0.0, cross_entropy=0.5)
    assert cost(mixed, 0.0) == pytest.approx(plain, abs=1e-9)
    assert cost(mixed, 0.25) == pytest.approx((plain + cost(whole, 0.25)) / 2, abs=1e-9)
    assert cost(mixed, 0.8) == pytest.approx(cost(whole, 0.8), abs=1e-12)


@either
def test_padding_and_batching_change_nothing(objective: SlotObjective) -> None:
    network, batch = network_for(objective), batch_of((7, 3), (2, 4), (5, 2), (7, 6))
    loss = loss_of(network, objective, batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target))
    assert_close(loss_of(network, objective, garbage).value, loss.value)
    alone = [loss_of(network, objective, one(batch, index)).value.item() for index in range(4)]
    assert loss.value.item() == pytest.approx(sum(alone) / 4, abs=1e-10)
    assert (loss.sentences, loss.tokens, loss.skipped) == (4, 15, 0)


@either
def test_every_weight_gets_a_gradient(objective: SlotObjective) -> None:
    network = network_for(objective).train()
    loss_of(network, objective, batch_of((5, 4), (3, 3))).value.backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


@either
@pytest.mark.parametrize("target", [[], [BOS]])
def test_nothing_to_learn_from_is_left_out(objective: SlotObjective, target: list[int]) -> None:
    network = network_for(objective)
    batch = Batch(source_of(4, 3), Padded.from_lists([target, [BOS, 5, EOS]]))
    loss = loss_of(network, objective, batch)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 3, 1)
    assert_close(loss.value, loss_of(network, objective, one(batch, 1)).value)
    loss.value.backward()  # type: ignore[no-untyped-call]
    assert all(
        bool(weight.grad.isfinite().all()) for weight in network.parameters() if weight.grad is not None
    )
    nothing = loss_of(network, objective, one(batch, 0))
    assert (nothing.value.item(), nothing.sentences, nothing.skipped) == (0.0, 0, 1)


def test_what_does_not_fit_is_refused() -> None:
    message = "AXE trains slots with a blank: network.blank must be true, got false"
    with pytest.raises(ObjectiveError, match=message):
        Step(slots(blank=False), AXE())
    with pytest.raises(ObjectiveError, match="OAXE trains slots networks, got DAGNetwork"):
        Step(any_network("dag"), OAXE())


def test_settings_have_a_range() -> None:
    with pytest.raises(ValueError, match=r"skip_penalty must be at least 1, got 0\.5"):
        AXE(skip_penalty=0.5)
    with pytest.raises(ValueError, match=r"slots_per_token must be in 1 … 8, got 0\.9"):
        AXE(slots_per_token=0.9)
    with pytest.raises(ValueError, match=r"least_probability must be in 0 … 1, got 1\.5"):
        OAXE(least_probability=1.5)
    with pytest.raises(ValueError, match="cross_entropy must be in 0 … 1, got nan"):
        OAXE(cross_entropy=math.nan)
    with pytest.raises(ValueError, match=r"label_smoothing must be at least 0 and less than 1, got 1\.0"):
        OAXE(label_smoothing=1.0)
    with pytest.raises(ValueError, match=r"length_weight must be positive, got 0\.0"):
        AXE(length_weight=0.0)
