"""Imputer: all alignments that agree with what is shown, one by one, and how much is shown."""

import math
from collections import Counter
from itertools import groupby, product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pcfgnat.networks import Batch, CanvasIds, ImputerNetwork, inference
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import all_emissions
from pcfgnat.objectives import Imputer, Likelihood, Loss, ObjectiveError
from pcfgnat.objectives.reveal.alignment import PartialAlignment, best_alignment, open_slots
from pcfgnat.structures import CTC, Padded
from tests.support.lattices import random_tokens
from tests.support.sentences import BOS, EOS, batch_of, one, sentences, source_of, with_garbage
from tests.support.zoo import UNDROPPED, made

Alignment = tuple[int, ...]


def sentence_of(alignment: Alignment) -> list[int]:
    return [symbol for symbol, _ in groupby(alignment) if symbol != BLANK]


def imputed(log_probs: list[list[float]], target: list[int], shown: dict[int, int]) -> list[float]:
    """Scores of the open slots of every alignment of the target that agrees with what is shown."""
    found = []
    for alignment in product(range(len(log_probs[0])), repeat=len(log_probs)):
        agrees = all(alignment[slot] == symbol for slot, symbol in shown.items())
        if agrees and sentence_of(alignment) == target:
            opened = [slot for slot in range(len(log_probs)) if slot not in shown]
            found.append(sum(log_probs[slot][alignment[slot]] for slot in opened))
    return found


def total(found: list[float]) -> float:
    return math.log(math.fsum(map(math.exp, found))) if found else -math.inf


def partial(slots: int, position: list[int], shown: list[int]) -> PartialAlignment:
    mask = torch.zeros(1, slots, dtype=torch.bool)
    mask[0, shown] = True
    return PartialAlignment(mask, torch.tensor([position]))


def some_alignment(target: list[int], slots: int) -> tuple[list[int], Alignment]:
    """The first alignment of a target: the position that each slot emits, and its symbols."""
    for alignment in product(range(3), repeat=slots):
        if sentence_of(alignment) == target:
            runs = [(symbol, len(list(run))) for symbol, run in groupby(alignment)]
            position, index = list[int](), -1
            for symbol, count in runs:
                index += symbol != BLANK
                position += [index if symbol != BLANK else -1] * count
            return position, alignment
    raise AssertionError("no alignment")


@pytest.mark.parametrize("target", [[], [1], [1, 2], [1, 1], [2, 1, 2], [1, 1, 2]])
@pytest.mark.parametrize("slots", [4, 5])
def test_what_is_shown_restricts_the_sum_and_costs_nothing(target: list[int], slots: int) -> None:
    log_probs = random_tokens(1, slots, 3, seed=slots).requires_grad_()
    local = Padded.from_lists([target or [0]])
    local = Padded(local.ids, torch.tensor([len(target)]))
    position, symbols = some_alignment(target, slots)
    counts = dict[int, float]()
    for mask in range(2**slots):
        shown = [slot for slot in range(slots) if mask >> slot & 1]
        forced = partial(slots, position, shown).forced(log_probs, local)
        posterior = CTC(forced, torch.tensor([slots]), BLANK).posterior(local)
        every = imputed(log_probs[0].tolist(), target, {slot: symbols[slot] for slot in shown})
        assert posterior.log_partition.item() == pytest.approx(total(every), abs=1e-9)
        assert posterior.num_derivations().item() == len(every)
        counts[mask] = len(every)
        (gradient,) = torch.autograd.grad(posterior.log_partition.sum(), log_probs)
        assert not gradient[0, shown].any()
        assert_close(gradient[0].sum(1), torch.tensor([slot not in shown for slot in range(slots)]).double())
    assert all(counts[mask | 1 << slot] <= counts[mask] for mask in counts for slot in range(slots))
    assert counts[2**slots - 1] == 1


def test_a_shown_token_may_be_either_of_two_equal_ones() -> None:
    target, log_probs = Padded.from_lists([[1, 1]]), random_tokens(1, 5, 3)
    counts = []
    for slot in range(5):
        position = [-1] * 5
        position[slot] = 0
        forced = partial(5, position, [slot]).forced(log_probs, target)
        counts.append(int(CTC(forced, torch.tensor([5]), BLANK).posterior(target).num_derivations()))
        assert counts[-1] == len(imputed(log_probs[0].tolist(), [1, 1], {slot: 1}))
    assert 6 in counts


def test_what_contradicts_the_target_leaves_nothing() -> None:
    log_probs = random_tokens(1, 4, 3).requires_grad_()
    shown = partial(4, [0, 0, -1, -1], [0, 1, 2, 3])  # the slots of "a", but the target is "a b"
    target = Padded.from_lists([[1, 2]])
    log_prob = CTC(shown.forced(log_probs, target), torch.tensor([4]), BLANK).log_prob(target)
    assert log_prob.item() == -math.inf
    (gradient,) = torch.autograd.grad(log_prob.sum(), log_probs)
    assert not gradient.any()


def network_of() -> ImputerNetwork:
    network = made("imputer", UNDROPPED)
    assert isinstance(network, ImputerNetwork)
    return network


def seeded(batch: Batch, first: int = 0) -> Batch:
    return Batch(batch.source, batch.target, torch.arange(first, first + len(batch.target.lengths)) * 7919)


def loss_of(network: ImputerNetwork, batch: Batch) -> Loss:
    return Imputer().loss(network, batch, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_the_loss_equals_enumeration(seed: int) -> None:
    network, source = network_of(), Padded.from_lists([[5, 6]])  # four slots
    target = [5, 5] if seed % 2 else [7, 5]
    batch = seeded(Batch(source, Padded.from_lists([[BOS, *target, EOS]])), seed)
    assert batch.seeds is not None
    with inference(network):
        memory, emitted = network.encode(source), Padded.from_lists([target])
        blank = CanvasIds.blank(torch.tensor([4]))
        position = best_alignment(network, memory, blank, emitted)
        opened = open_slots(blank, batch.seeds)[0].tolist()
        symbols = [BLANK if place < 0 else target[place] for place in position[0].tolist()]
        shown = {slot: symbol for slot, symbol in enumerate(symbols) if not opened[slot]}
        ids = blank.ids.clone()
        for slot, symbol in shown.items():
            ids[0, slot] = symbol
        log_probs = all_emissions(network, network.fill(memory, CanvasIds(ids, blank.lengths)))[0]
    expected = -total(imputed(log_probs.tolist(), target, shown)) / 4
    loss = loss_of(network, batch)
    assert loss.value.item() == pytest.approx(expected, abs=1e-9)
    assert loss.metrics["nll"] == pytest.approx(expected, abs=1e-9)
    assert loss.metrics["revealed"] == len(shown) / 4
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 4, 0)


def test_the_best_alignment_is_shown() -> None:
    network, batch = network_of(), batch_of((4, 5), (3, 4))
    with inference(network):
        memory = network.encode(batch.source)
        blank = CanvasIds.blank(network.canvas_lengths(memory, None))
        emitted = network.emitted(batch.target)
        position = best_alignment(network, memory, blank, emitted)
        whole = CTC(all_emissions(network, network.fill(memory, blank)), blank.lengths, BLANK)
        assert torch.equal(position, whole.posterior(emitted).argmax().position)


def open_counts(slots: int, draws: int) -> tuple[Tensor, Tensor]:
    opened = open_slots(CanvasIds.blank(torch.full((draws,), slots)), torch.arange(draws))
    return opened.sum(1), opened


def test_all_numbers_of_open_slots_and_all_choices_are_equally_likely() -> None:
    counts, opened = open_counts(4, 24000)
    shares = torch.bincount(counts, minlength=5) / len(counts)
    assert float(shares[0]) == 0.0
    assert_close(shares[1:], torch.full((4,), 0.25), atol=0.01, rtol=0.0)
    pairs = Counter(tuple(row.nonzero().flatten().tolist()) for row in opened[counts == 2])
    assert len(pairs) == 6
    assert min(pairs.values()) / max(pairs.values()) > 0.85


def test_seeds_decide_and_batches_do_not() -> None:
    lengths, seeds = torch.tensor([4, 9, 1, 6]), torch.tensor([3, 14, 15, 92])
    together = open_slots(CanvasIds.blank(lengths), seeds)
    for index, length in enumerate(lengths.tolist()):
        alone = open_slots(CanvasIds.blank(lengths[index : index + 1]), seeds[index : index + 1])
        assert torch.equal(together[index, :length], alone[0])
        assert not together[index, length:].any()
    assert not torch.equal(open_slots(CanvasIds.blank(lengths), seeds + 1), together)


def test_padding_and_batching_change_nothing() -> None:
    network, batch = network_of(), seeded(batch_of((7, 3), (2, 4), (5, 2), (7, 6)))
    loss = loss_of(network, batch)
    garbage = Batch(with_garbage(batch.source), with_garbage(batch.target), batch.seeds)
    assert_close(loss_of(network, garbage).value, loss.value)
    alone = [loss_of(network, one(batch, index)).value.item() for index in range(4)]
    assert loss.value.item() == pytest.approx(sum(alone) / 4, abs=1e-10)


def test_with_nothing_shown_it_is_ctc(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch = network_of(), batch_of((5, 4), (3, 2))

    def all_open(canvas: CanvasIds, seeds: Tensor) -> Tensor:
        return canvas.mask

    monkeypatch.setattr("pcfgnat.objectives.imputer.open_slots", all_open)
    assert_close(loss_of(network, batch).value, Likelihood().loss(network, batch, 0.0).value)


def test_every_weight_gets_a_gradient() -> None:
    network = network_of().train()
    loss_of(network, seeded(batch_of((5, 4), (3, 2), (7, 6)))).value.backward()  # type: ignore[no-untyped-call]
    for key, weight in network.named_parameters():
        assert weight.grad is not None, key
        assert bool(weight.grad.isfinite().all()), key
        assert bool(weight.grad.abs().max() > 0), key


def test_what_does_not_fit_is_left_out() -> None:
    network, possible = network_of(), sentences(5, seed=1)[0]
    targets = Padded.from_lists([possible, [BOS], [], sentences(38)[0]])
    batch = seeded(Batch(source_of(4, 4, 4, 4), targets))
    loss = loss_of(network, batch)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 5, 3)
    assert_close(loss.value, loss_of(network, one(batch, 0)).value)
    nothing = loss_of(network, Batch(source_of(4), Padded.from_lists([[BOS]])))
    assert (nothing.value.item(), nothing.sentences) == (0.0, 0)


def test_other_networks_are_refused() -> None:
    with pytest.raises(ObjectiveError, match="imputer trains networks of kind imputer, got CTCNetwork"):
        Imputer().check(made("ctc"))
