"""Masked objectives against what they are by definition: draws, canvases and costs in plain Python."""

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from pcfgnat.networks import (
    Batch,
    Canvas,
    CanvasIds,
    Memory,
    PredictedLengthNetwork,
    SlotsConfig,
    SlotsNetwork,
)
from pcfgnat.objectives import Corrected, Loss, Masked, ObjectiveError, Smart, Step
from pcfgnat.objectives.masked import FIRST_MASK, REPLACED, SECOND_MASK, MaskedObjective
from pcfgnat.objectives.randomness import noise
from pcfgnat.objectives.reveal.mask import Gold, UniformMask
from pcfgnat.objectives.reveal.own_guesses import own_guesses
from pcfgnat.structures import Padded
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.sentences import VOCABULARY, batch_of, one, with_garbage
from tests.support.zoo import SMALL, UNDROPPED, any_network, made

MASK = SPECIAL_TOKENS.unk
ROUNDING = 1e-6  # lengths are scored in float32
OBJECTIVES: list[MaskedObjective] = [Masked(), Smart(), Smart(0.3, 0.05, 0.5, 0.75), Corrected(0.1, 0.2, 0.5)]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


def seeded(*lengths: tuple[int, int], first: int = 5) -> Batch:
    return replace(batch_of(*lengths), seeds=torch.arange(first, first + len(lengths)))


BATCH = seeded((7, 9), (2, 4), (5, 3), (7, 12), (4, 2))  # the last target is empty


def slots(name: str = "slots") -> PredictedLengthNetwork:
    network = made(name, UNDROPPED)
    assert isinstance(network, PredictedLengthNetwork)
    return network


def drawn_positions(
    seed: int, words: int, streams: tuple[int, int], least: float = 0.0, most: float = 1.0
) -> set[int]:
    """The positions that a sentence's numbers choose, by their definition."""
    seeds = torch.tensor([seed])
    share = least + (most - least) * float(noise(seeds, 1, streams[0]))
    chance = noise(seeds, words + 1, streams[1])[0].tolist()
    return set(sorted(range(1, words + 1), key=chance.__getitem__)[: min(1 + int(share * words), words)])


@dataclass
class Plain:
    """What is asked of a network about one sentence: canvas and charged positions of each exercise."""

    network: PredictedLengthNetwork
    pair: Batch

    @property
    def gold(self) -> list[int]:
        return self.pair.target.to_lists()[0]

    def log_probs(self, canvas: list[int]) -> Tensor:
        memory = self.network.encode(self.pair.source)
        filled = self.network.fill(memory, CanvasIds(torch.tensor([canvas]), torch.tensor([len(canvas)])))
        return (filled.states[0] @ self.network.embeddings.tokens.weight.t()).log_softmax(-1)

    def guesses(self, canvas: list[int]) -> list[int]:
        return (4 + self.log_probs(canvas)[:, 4:].argmax(1)).tolist()

    def hidden(self, tokens: list[int], places: set[int]) -> list[int]:
        return [MASK if place in places else token for place, token in enumerate(tokens)]

    def exercises(self, objective: MaskedObjective) -> list[tuple[list[int], set[int]]]:
        assert self.pair.seeds is not None
        seed, gold, words = int(self.pair.seeds), self.gold, len(self.gold) - 2
        inner = set(range(1, words + 1))
        if isinstance(objective, Smart):
            first = drawn_positions(seed, words, FIRST_MASK, objective.least_masked, objective.most_masked)
            guessed = self.guesses(self.hidden(gold, first))
            draft = [gold[0], *guessed[1:-1], gold[-1]]
            return [(self.hidden(draft, drawn_positions(seed, words, SECOND_MASK)), inner)]
        masked = drawn_positions(seed, words, FIRST_MASK)
        predicted = (self.hidden(gold, masked), masked)
        if isinstance(objective, Masked):
            return [predicted]
        assert isinstance(objective, Corrected)
        chance = noise(torch.tensor([seed]), words + 1, REPLACED)[0].tolist()
        shown = sorted(inner - masked, key=chance.__getitem__)
        replaced = set(shown[: int(objective.replaced * len(shown))])
        guessed = self.guesses(self.hidden(gold, inner))
        wrong = [guessed[place] if place in replaced else token for place, token in enumerate(gold)]
        return [predicted, (self.hidden(wrong, masked), replaced)]

    def length_cost(self) -> Tensor:
        memory = self.network.encode(self.pair.source)
        scores = self.network.length_scores(memory)[0]
        return -scores.log_softmax(-1)[len(self.gold) - int(self.pair.source.lengths) + 128]


def plain_loss(network: PredictedLengthNetwork, objective: MaskedObjective, batch: Batch) -> Tensor:
    """The loss with the whole softmax, position by position."""
    sums: dict[int, list[Tensor]] = {}
    lengths = []
    for index in range(len(batch.target.lengths)):
        plain = Plain(network, one(batch, index))
        if len(plain.gold) <= 2:
            continue
        given = plain.exercises(objective)
        lengths += [plain.length_cost()] * len(given[0][1])
        for number, (canvas, charged) in enumerate(given):
            rows = plain.log_probs(canvas)
            epsilon = objective.label_smoothing
            for place in charged:
                cost = -(1 - epsilon) * rows[place, plain.gold[place]] - epsilon * rows[place].mean()
                sums.setdefault(number, []).append(cost)
    means = [torch.stack(costs).mean() for costs in sums.values()]
    return torch.stack(means).mean() + objective.length_weight * torch.stack(lengths).mean()


@pytest.mark.parametrize("name", ["slots", "cmlmc"])
@every_objective
def test_is_what_its_definition_says_in_value_and_gradient(objective: MaskedObjective, name: str) -> None:
    network = slots(name)
    loss, expected = objective.loss(network, BATCH, 0.0), plain_loss(network, objective, BATCH)
    assert loss.value.item() == pytest.approx(expected.item(), abs=ROUNDING)
    weights = [*network.parameters()]
    found = torch.autograd.grad(loss.value, weights)
    for gradient, wanted in zip(found, torch.autograd.grad(expected, weights), strict=True):
        assert_close(gradient, wanted, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_every_draw_is_charged_right(seed: int) -> None:
    network, batch = slots(), seeded((4, 6), (3, 5), first=100 * seed)
    for objective in OBJECTIVES:
        value = objective.loss(network, batch, 0.0).value.item()
        assert value == pytest.approx(
            plain_loss(network, objective, batch).item(), abs=1e-6
        )  # the length is scored in float32


def test_counts_what_is_charged() -> None:
    network, words = slots(), [7, 2, 1, 10]
    masked = [len(drawn_positions(5 + index, count, FIRST_MASK)) for index, count in enumerate(words)]
    loss = Masked().loss(network, BATCH, 0.0)
    assert (loss.tokens, loss.sentences, loss.skipped) == (sum(masked), 4, 1)
    assert Corrected().loss(network, BATCH, 0.0).tokens == sum(masked)
    assert Smart().loss(network, BATCH, 0.0).tokens == sum(words)
    assert Masked.weight == "tokens"
    plain = Masked(label_smoothing=0.0).loss(network, BATCH, 0.0)
    assert plain.metrics["nll"] == pytest.approx(plain.value.item() - plain.metrics["length_loss"])
    assert loss.metrics["nll"] == pytest.approx(plain.metrics["nll"])
    assert set(Corrected().loss(network, BATCH, 0.0).metrics) == {"nll", "correction_nll", "length_loss"}


def repeated(gold: Gold) -> Batch:
    """Targets that are their own sources, each with a seed."""
    sentences = Padded(gold.ids, gold.lengths)
    return Batch(sentences, sentences, torch.arange(len(gold.lengths)))


def test_every_set_of_positions_has_its_probability() -> None:
    words, draws = 3, 40000
    gold = Gold.of(Padded(torch.full((draws, 5), 7), torch.full((draws,), 5)), torch.full((draws,), 5))
    batch = repeated(gold)
    rows = UniformMask((1, 2)).hidden(batch, gold).tolist()
    counted = Counter(tuple(place for place, hidden in enumerate(row) if hidden) for row in rows)
    for count in range(1, words + 1):
        for chosen in combinations(range(1, words + 1), count):
            chance = 1 / (words * math.comb(words, count))
            error = math.sqrt(chance * (1 - chance) / draws)
            assert counted.pop(chosen) / draws == pytest.approx(chance, abs=4.5 * error)
    assert not counted


def test_the_second_mask_is_independent_of_the_first() -> None:
    draws, words = 20000, 4
    gold = Gold.of(Padded(torch.full((draws, 6), 7), torch.full((draws,), 6)), torch.full((draws,), 6))
    batch = repeated(gold)
    first, second = (
        UniformMask(streams).hidden(batch, gold)[:, 1:-1] for streams in (FIRST_MASK, SECOND_MASK)
    )
    pairs = Counter(zip(first.sum(1).tolist(), second.sum(1).tolist(), strict=True))
    for pair in ((i, j) for i in range(1, words + 1) for j in range(1, words + 1)):
        assert pairs[pair] / draws == pytest.approx(1 / words**2, abs=0.009)
    same = (first & second).double().mean(0)
    assert_close(same, first.double().mean(0) * second.double().mean(0), atol=0.015, rtol=0)


def test_bounds_of_the_first_mask() -> None:
    gold = Gold.of(Padded(torch.full((900, 12), 7), torch.full((900,), 12)), torch.full((900,), 12))
    batch = repeated(gold)
    counts = [
        set(UniformMask((1, 2), least, most).hidden(batch, gold).sum(1).tolist())
        for least, most in ((0.0, 1.0), (0.5, 0.75), (1.0, 1.0), (0.0, 0.0))
    ]
    assert counts == [set(range(1, 11)), {6, 7, 8}, {10}, {1}]


class Knowing(SlotsNetwork):
    """Is certain of the gold tokens, whatever it is shown, and remembers that."""

    def __init__(self, gold: Tensor) -> None:
        torch.manual_seed(0)
        super().__init__(SlotsConfig(UNDROPPED), VOCABULARY)
        self.gold, self.read = gold, list[Tensor]()

    def fill(self, memory: Memory, canvas: CanvasIds) -> Canvas:
        self.read.append(canvas.ids)
        scores = functional.one_hot(self.gold, VOCABULARY).float() * 9.0
        states = scores @ torch.linalg.pinv(self.embeddings.tokens.weight).t()
        return Canvas(states, canvas.mask, canvas.lengths, memory.lengths)


def test_smart_with_right_guesses_is_a_masked_model_charged_everywhere() -> None:
    batch = seeded((5, 8), (4, 6))
    target = batch.target.ids.masked_fill(~batch.target.mask, 0)
    network = Knowing(target)
    loss = Smart().loss(network, batch, 0.0)
    first, second = network.read
    inner = (target > 3) & batch.target.mask
    assert loss.tokens == int(inner.sum()) == 10
    for shown in (first, second):
        assert bool(((shown == target) | (shown == MASK))[inner].all())
    assert not torch.equal(first, second)
    expected = Masked().loss(network, batch, 0.0)  # the stub's tokens all cost the same
    assert loss.metrics["nll"] == pytest.approx(expected.metrics["nll"], abs=1e-5)


def test_only_what_is_shown_is_replaced() -> None:
    network, batch = slots(), seeded(*[(6, 12)] * 30)
    gold = Gold.of(batch.target, batch.target.lengths)
    memory = network.encode(batch.source)
    masked, corrected = Corrected(replaced=0.3).exercises(network, memory, batch, gold)
    assert not bool((masked.charged & corrected.charged).any())
    revealed = gold.inner.sum(1) - masked.charged.sum(1)
    assert corrected.charged.sum(1).tolist() == [int(0.3 * count) for count in revealed.tolist()]
    assert torch.equal(corrected.canvas.ids == MASK, masked.canvas.ids == MASK)
    same = corrected.canvas.ids == masked.canvas.ids
    assert bool(same[~corrected.charged].all())
    assert not bool(same[corrected.charged].all())


@every_objective
def test_padding_changes_nothing(objective: MaskedObjective) -> None:
    network = slots()
    garbage = Batch(with_garbage(BATCH.source), with_garbage(BATCH.target), BATCH.seeds)
    first, second = (objective.loss(network, batch, 0.0) for batch in (BATCH, garbage))
    assert_close(first.value, second.value, atol=1e-12, rtol=0)
    assert (first.tokens, first.sentences, first.skipped) == (second.tokens, second.sentences, second.skipped)


@pytest.mark.parametrize("objective", [Masked(), Smart()], ids=repr)
def test_a_batch_is_the_mean_of_its_sentences_by_tokens(objective: MaskedObjective) -> None:
    network = slots()
    loss = objective.loss(network, BATCH, 0.0)
    alone: list[Loss] = [objective.loss(network, one(BATCH, index), 0.0) for index in range(4)]
    total = sum(part.value.item() * part.tokens for part in alone)
    assert loss.tokens == sum(part.tokens for part in alone)
    assert loss.value.item() == pytest.approx(
        total / loss.tokens, abs=1e-6
    )  # the length is scored in float32


@every_objective
def test_empty_targets_cost_nothing(objective: MaskedObjective) -> None:
    network, batch = slots(), batch_of((4, 2), (6, 2))
    loss = objective.loss(network, batch, 0.0)
    assert (loss.value.item(), loss.tokens, loss.sentences, loss.skipped) == (0.0, 0, 0, 2)
    loss.value.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None and not weight.grad.any() for weight in network.parameters())
    bare = Batch(batch.source, Padded(torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 0])))
    assert objective.loss(network, bare, 0.0).skipped == 2


@every_objective
def test_without_seeds_torch_decides(objective: MaskedObjective) -> None:
    network, batch = slots(), replace(BATCH, seeds=None)

    def value(seed: int) -> float:
        torch.manual_seed(seed)
        return objective.loss(network, batch, 0.0).value.item()

    assert value(1) == value(1)
    assert value(1) != value(2)


def test_guesses_leave_the_generator_and_have_no_special_tokens() -> None:
    network = made("slots", SMALL).train()
    memory, canvas = network.encode(BATCH.source), CanvasIds.blank(BATCH.target.lengths)
    state = torch.random.get_rng_state()
    guessed = own_guesses(network, memory, canvas)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert bool((guessed >= 4)[canvas.mask].all())
    assert not guessed.requires_grad
    assert torch.equal(own_guesses(network, memory, canvas), guessed)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Masked, {"label_smoothing": 1.0}, "label_smoothing must be at least 0 and less than 1, got 1.0"),
        (Smart, {"length_weight": 0.0}, "length_weight must be positive, got 0.0"),
        (
            Smart,
            {"least_masked": 0.6, "most_masked": 0.5},
            "least_masked and most_masked must be in 0 … 1, in this order, got 0.6 and 0.5",
        ),
        (Corrected, {"replaced": 0.0}, "replaced must be more than 0 and at most 1, got 0.0"),
        (
            Corrected,
            {"label_smoothing": -0.1},
            "label_smoothing must be at least 0 and less than 1, got -0.1",
        ),
    ],
)
def test_settings_are_checked(kind: type[MaskedObjective], settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        kind(**settings)


@every_objective
@pytest.mark.parametrize("name", ["pcfg", "dag", "ctc", "autoregressive"])
def test_other_networks_are_refused_in_one_line(objective: MaskedObjective, name: str) -> None:
    network = any_network(name)
    message = (
        f"{type(objective).__name__} trains networks that predict a length, got {type(network).__name__}"
    )
    with pytest.raises(ObjectiveError, match=f"^{message}$"):
        Step(network, objective)
