"""A softmax among the batch's own tokens and some others: what competes, and that nothing else changes."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import Batch
from pcfgnat.networks.emissions import Shortlist, target_emissions, with_columns
from pcfgnat.objectives import Likelihood
from tests.support.sentences import VOCABULARY, batch_of
from tests.support.zoo import CANVAS, UNDROPPED, made

SEEDS = torch.tensor([7, 2**40 + 7])
every_network = pytest.mark.parametrize("name", list(CANVAS))


def seeded() -> Batch:
    return replace(batch_of((5, 4), (7, 6)), seeds=SEEDS)


def test_half_of_them_are_the_first_ids_and_half_have_the_least_chance() -> None:
    chance = torch.tensor([0.1, 0.2, 0.9, 0.3, 0.8, 0.4])
    assert Shortlist.drawn(4, chance).kept.tolist() == [True, True, False, True, False, True]
    assert Shortlist.drawn(5, chance).kept.tolist() == [True, True, True, True, False, True]
    everything = Shortlist.drawn(100, chance)
    assert everything.kept.all()
    assert everything.size == 6


@every_network
def test_probabilities_are_among_the_kept_and_the_targets_own(name: str) -> None:
    network, batch = made(name, UNDROPPED), seeded()
    memory = network.encode(batch.source)
    canvas = network.fill(memory, network.blank(memory, batch.target))
    target = with_columns(network.emitted(batch.target))
    shortlist = Shortlist.drawn(4, torch.linspace(1, 0, network.vocabulary, dtype=torch.float64))
    emit, local = target_emissions(network, canvas, target, shortlist)
    own = set(target.ids[target.mask].tolist()) | {0}  # padding is 0 as well
    if network.framing.blank is not None:
        own.add(network.framing.blank)
    left_out = [token not in own and not kept for token, kept in enumerate(shortlist.kept.tolist())]
    scores = canvas.states @ network.embeddings.tokens.weight.t()
    among = scores.masked_fill(torch.tensor(left_out), -torch.inf).log_softmax(-1)
    assert any(left_out)
    for row in range(2):
        for position in range(int(target.lengths[row])):
            column = among[row, :, target.ids[row, position]]
            inside = canvas.mask[row]
            assert_close(emit[row, inside, local.ids[row, position]], column[inside])


@every_network
def test_all_tokens_as_competitors_change_neither_loss_nor_gradient(name: str) -> None:
    def step(competitors: int | None) -> tuple[float, list[torch.Tensor | None]]:
        network = made(name, UNDROPPED).train()
        loss = Likelihood(competitors=competitors).loss(network, seeded(), 0.0)
        loss.value.backward()  # type: ignore[no-untyped-call]
        return loss.value.item(), [parameter.grad for parameter in network.parameters()]

    (value, gradients), (expected, wanted) = step(10**6), step(None)
    assert value == pytest.approx(expected, abs=1e-12)
    for gradient, other in zip(gradients, wanted, strict=True):
        assert_close(gradient, other)


@every_network
def test_competitors_follow_from_the_seed_and_compete_in_training_only(name: str) -> None:
    network, few = made(name, UNDROPPED), Likelihood(competitors=2)
    assert few.loss(network, seeded(), 0.0).value == Likelihood().loss(network, seeded(), 0.0).value
    network.train()
    first = few.loss(network, seeded(), 0.0).value
    assert first < Likelihood().loss(network, seeded(), 0.0).value  # less competes
    assert few.loss(network, seeded(), 0.0).value == first
    others = {few.loss(network, replace(seeded(), seeds=SEEDS + n), 0.0).value.item() for n in range(1, 9)}
    assert others - {first.item()}


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(ValueError, match="competitors must be at least 0, got -1"):
        Likelihood(competitors=-1)
    assert VOCABULARY > 4  # or nothing was left out above
