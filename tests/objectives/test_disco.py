"""DisCo: the loss against one position at a time, and the sets that are drawn."""

from collections import Counter

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.grammar.canvas import SAME_LENGTH
from pcfgnat.networks import Batch, CanvasIds, DiscoNetwork
from pcfgnat.objectives import Disco, Loss, ObjectiveError
from pcfgnat.objectives.disco import random_sets
from pcfgnat.structures import Padded
from tests.support.sentences import BOS, EOS, batch_of, one, source_of, with_garbage
from tests.support.zoo import UNDROPPED, made


def disco() -> DiscoNetwork:
    network = made("disco", UNDROPPED, copy_input=True)
    assert isinstance(network, DiscoNetwork)
    network.length.bias.data.zero_()  # type: ignore[union-attr]
    return network


def seeded(batch: Batch) -> Batch:
    return Batch(batch.source, batch.target, 7919 * torch.arange(len(batch.target.lengths)))


def loss_of(network: DiscoNetwork, batch: Batch, smoothing: float = 0.1) -> Loss:
    return Disco(smoothing).loss(network, batch, 0.0)


def inner(*lengths: int) -> Tensor:
    node = torch.arange(max(lengths))
    return (node > 0) & (node < torch.tensor(lengths).unsqueeze(1) - 1)


def enumerated(network: DiscoNetwork, batch: Batch, smoothing: float) -> Tensor:
    """The loss, one position at a time, with rubbish wherever a position does not look."""
    assert batch.seeds is not None
    costs, lengths = [], []
    for index, target in enumerate(batch.target.to_lists()):
        single = one(batch, index)
        memory = network.encode(single.source)
        sets = random_sets(inner(len(target)), batch.seeds[index : index + 1])
        label = len(target) - int(memory.lengths) + SAME_LENGTH
        length_cost = -network.length_scores(memory).log_softmax(1)[0, label]
        for place in range(1, len(target) - 1):
            seen = sets[0, place].tolist()
            ids = [token if seen[j] or j in (0, len(target) - 1) else 11 for j, token in enumerate(target)]
            canvas = CanvasIds(torch.tensor([ids]), torch.tensor([len(target)]))
            state = network.fill_visible(memory, canvas, sets).states[0, place]
            log_probs = (network.embeddings.tokens.weight @ state).log_softmax(0)
            costs.append(-(1 - smoothing) * log_probs[target[place]] - smoothing * log_probs.mean())
            lengths.append(length_cost)
    return torch.stack(costs).mean() + 0.1 * torch.stack(lengths).mean()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_equals_one_position_at_a_time(smoothing: float) -> None:
    network, batch = disco(), seeded(batch_of((5, 4), (3, 6), (7, 3)))
    loss, expected = loss_of(network, batch, smoothing), enumerated(network, batch, smoothing)
    assert_close(loss.value, expected, rtol=1e-6, atol=1e-6)
    assert (loss.sentences, loss.tokens, loss.skipped) == (3, 7, 0)
    weights = list(network.parameters())
    found = torch.autograd.grad(loss.value, weights)
    wanted = torch.autograd.grad(expected, weights)
    for left, right in zip(found, wanted, strict=True):
        assert_close(left, right, rtol=1e-3, atol=1e-3)


def test_all_numbers_and_all_sets_are_equally_likely() -> None:
    draws = 8000
    sets = random_sets(inner(6).expand(draws, -1), torch.arange(draws))  # four tokens
    for place in (1, 4):
        seen = sets[:, place, 1:5]
        assert not seen[:, place - 1].any()
        counts = torch.bincount(seen.sum(1), minlength=4) / draws
        assert_close(counts, torch.full((4,), 0.25), rtol=0.0, atol=0.02)
        pairs = Counter(tuple(row.nonzero().flatten().tolist()) for row in seen[seen.sum(1) == 2])
        assert len(pairs) == 3
        assert min(pairs.values()) / max(pairs.values()) > 0.85
    together = (sets[:, 1].sum(1) == 0) & (sets[:, 4].sum(1) == 0)
    assert float(together.double().mean()) == pytest.approx(1 / 16, abs=0.02)  # independent of each other
    assert not sets[:, 0].any()
    assert not sets[:, :, 5].any()


def test_seeds_decide_and_batches_do_not() -> None:
    seeds = torch.tensor([3, 14, 15])
    together = random_sets(inner(4, 9, 2), seeds)
    for index, length in enumerate((4, 9, 2)):
        alone = random_sets(inner(length), seeds[index : index + 1])
        assert torch.equal(together[index, :length, :length], alone[0])
    assert not torch.equal(random_sets(inner(4, 9, 2), seeds + 1), together)


def test_padding_and_batching_change_nothing() -> None:
    network, batch = disco(), seeded(batch_of((7, 3), (2, 4), (5, 2), (7, 6)))
    loss = loss_of(network, batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target), batch.seeds)
    assert_close(loss_of(network, garbage).value, loss.value)
    alone = [loss_of(network, one(batch, index)) for index in range(4)]
    together = sum(single.value.item() * single.tokens for single in alone) / loss.tokens
    assert loss.value.item() == pytest.approx(together, abs=1e-6)
    assert (loss.sentences, loss.tokens, loss.skipped) == (3, 7, 1)


def test_every_weight_gets_a_gradient() -> None:
    network = disco().train()
    loss_of(network, seeded(batch_of((5, 4), (3, 6), (7, 6)))).value.backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


def test_nothing_to_learn_from_is_a_loss_of_nothing() -> None:
    network = disco()
    loss = loss_of(network, Batch(source_of(4, 3, 3), Padded.from_lists([[], [BOS], [BOS, EOS]])))
    assert (loss.value.item(), loss.sentences, loss.tokens, loss.skipped) == (0.0, 0, 0, 3)


def test_bad_settings_and_other_networks_are_named() -> None:
    with pytest.raises(ValueError, match=r"label_smoothing must be at least 0 and less than 1, got 1\.0"):
        Disco(label_smoothing=1.0)
    with pytest.raises(ValueError, match=r"length_weight must be positive, got 0\.0"):
        Disco(length_weight=0.0)
    with pytest.raises(ObjectiveError, match="disco trains networks of kind disco, got SlotsNetwork"):
        Disco().check(made("slots"))
