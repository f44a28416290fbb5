"""What is revealed, and what it does to the loss."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from pcfgnat.networks import Batch, Canvas, CanvasNetwork, DiscoNetwork
from pcfgnat.objectives import Glancing, Likelihood
from pcfgnat.objectives.randomness import noise as seeded_noise
from pcfgnat.objectives.reveal import glancing as module
from pcfgnat.objectives.reveal.glancing import Revealed, reveal
from pcfgnat.structures import Padded, SequenceDistribution
from tests.support.sentences import batch_of, one
from tests.support.zoo import CANVAS, SMALL, UNDROPPED, made

every_network = pytest.mark.parametrize("name", list(CANVAS))
TARGET = Padded.from_lists([[2, 7, 8, 9, 3], [2, 7, 3]], padding=99)
POSITION = torch.tensor([[-1, 0, 1, -1, 2, 3, -1, 4], [-1, 0, -1, 1, 2, -1, -1, -1]])


def noise(seed: int = 0) -> Tensor:
    return torch.rand(2, 8, generator=torch.Generator().manual_seed(seed))


def predictions(correct: list[int]) -> Tensor:
    """What the nodes would emit: the first so many positions of each sentence are right, all others wrong."""
    predicted = torch.full((2, 8), 5)
    for row, (known, ids) in enumerate(zip(correct, TARGET.to_lists(), strict=True)):
        for i in range(known):
            predicted[row, POSITION[row] == i] = ids[i]
    return predicted


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("correct", [[0, 0], [1, 3], [5, 2]])
def test_a_share_of_what_is_wrong_is_shown(ratio: float, correct: list[int]) -> None:
    shown = reveal(POSITION, predictions(correct), TARGET, ratio, noise())
    assert shown.mask.sum(1).tolist() == [round(ratio * (5 - correct[0])), round(ratio * (3 - correct[1]))]
    assert not bool((shown.mask & (POSITION < 0)).any())
    for row, ids in enumerate(TARGET.to_lists()):
        for node in shown.mask[row].nonzero().flatten().tolist():
            assert int(shown.position[row, node]) == int(POSITION[row, node])
            assert int(shown.token[row, node]) == ids[int(POSITION[row, node])]


def test_right_predictions_elsewhere_do_not_count() -> None:
    predicted = predictions([0, 0])
    predicted[POSITION < 0] = 2  # the token of position 0, which no structure puts there
    shown = reveal(POSITION, predicted, TARGET, 1.0, noise())
    assert torch.equal(shown.mask, POSITION >= 0)


def test_the_least_noise_decides() -> None:
    predicted = predictions([0, 0])
    for seed in range(5):
        shown = reveal(POSITION, predicted, TARGET, 0.5, noise(seed))
        for row in range(2):
            aligned = (POSITION[row] >= 0).nonzero().flatten().tolist()
            ranked = sorted(aligned, key=lambda node: float(noise(seed)[row, node]))
            expected = set(ranked[: int(shown.mask[row].sum())])
            assert set(shown.mask[row].nonzero().flatten().tolist()) == expected
    masks = [reveal(POSITION, predicted, TARGET, 0.5, noise(seed)).mask for seed in range(20)]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) > 5


def test_sentences_without_a_structure_are_shown_nothing() -> None:
    nowhere = torch.full_like(POSITION, -1)
    assert not bool(reveal(nowhere, nowhere, TARGET, 1.0, noise()).mask.any())


def test_the_ratio_falls_linearly() -> None:
    config = Glancing(0.5, 0.1)
    found = [config.ratio(progress) for progress in (-1.0, 0.0, 0.25, 0.5, 1.0, 2.0)]
    assert found == pytest.approx([0.5, 0.5, 0.4, 0.3, 0.1, 0.1])
    assert config.enabled
    assert Glancing(0.0, 0.1).enabled
    assert not Glancing(0.0, 0.0).enabled
    assert not Glancing().enabled
    with pytest.raises(ValueError, match=r"first must be in 0 … 1, got 1\.5"):
        Glancing(first=1.5)
    with pytest.raises(ValueError, match=r"last must be in 0 … 1, got -0\.1"):
        Glancing(last=-0.1)
    with pytest.raises(ValueError, match="shortlist must be at least 0, got -1"):
        Glancing(shortlist=-1)


class Spy:
    """Keeps what goes through a network's decoder, its distributions and `reveal`, and changes nothing."""

    def __init__(self, network: CanvasNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs: list[Tensor] = []
        self.states: list[Tensor] = []
        self.canvases: list[Canvas] = []
        self.shown: list[tuple[Tensor, Tensor, Revealed]] = []
        distribution = network.distribution

        def distribute(canvas: Canvas, emit: Tensor) -> SequenceDistribution:
            self.canvases.append(canvas)
            return distribution(canvas, emit)

        def show(
            position: Tensor, predicted: Tensor, target: Padded, ratio: float, noise: Tensor
        ) -> Revealed:
            self.shown.append((position, predicted, reveal(position, predicted, target, ratio, noise)))
            return self.shown[-1][2]

        def decoded(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            tokens = inputs[1] if isinstance(network, DiscoNetwork) else inputs[0]
            self.inputs.append(tokens)
            self.states.append(output)

        monkeypatch.setattr(network, "distribution", distribute)
        monkeypatch.setattr(module, "reveal", show)
        network.decoder.register_forward_hook(decoded)


def learnable() -> Batch:
    return batch_of((5, 4), (3, 2), (7, 6), (4, 3))


@every_network
def test_both_passes_drop_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, objective = made(name, replace(SMALL, dropout=0.3)).train(), Likelihood(Glancing(0.0, 1.0))
    spy = Spy(network, monkeypatch)
    objective.loss(network, learnable(), 0.0)  # shows nothing
    first, second = spy.states
    assert torch.equal(first, second)
    objective.loss(network, learnable(), 0.0)
    assert not torch.equal(spy.states[2], first)  # other numbers each time
    objective.loss(network, learnable(), 1.0)  # shows everything
    assert not torch.equal(spy.states[4], spy.states[5])


@every_network
def test_nothing_is_shown_in_validation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = made(name)
    spy = Spy(network, monkeypatch)
    loss = Likelihood(Glancing(1.0, 1.0)).loss(network, learnable(), 0.0)
    assert (len(spy.states), spy.shown) == (1, [])
    assert not {"revealed", "glancing_accuracy"} & set(loss.metrics)
    hidden = Likelihood(Glancing(0.0, 0.0)).loss(network, learnable(), 0.0)
    assert_close(loss.value, hidden.value)


@every_network
def test_nodes_are_shown_their_tokens_and_the_figures_say_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = made(name, UNDROPPED).train()
    spy = Spy(network, monkeypatch)
    loss = Likelihood(Glancing(0.6, 0.6)).loss(network, learnable(), 0.0)
    ((position, predicted, shown),) = spy.shown
    before, after = spy.inputs
    assert bool(shown.mask.any())
    assert_close(before[~shown.mask], after[~shown.mask])
    expected = network.embeddings.target(shown.token, shown.mask)
    assert_close(after[shown.mask], expected[shown.mask])
    emitted, right, aligned = network.emitted(learnable().target).to_lists(), 0, 0
    for row, ids in enumerate(emitted):
        for node, i in enumerate(position[row].tolist()):
            aligned += i >= 0
            right += i >= 0 and int(predicted[row, node]) == ids[i]
    assert loss.metrics["glancing_accuracy"] == pytest.approx(right / aligned)
    assert loss.metrics["revealed"] == pytest.approx(int(shown.mask.sum()) / aligned)
    scores = network.embeddings.tokens.scores(spy.states[0].flatten(0, 1)).view(*position.shape, -1)
    assert torch.equal(predicted[position >= 0], scores.argmax(-1)[position >= 0])


@every_network
@pytest.mark.parametrize("force_emit", [False, True])
def test_forced_nodes_emit_their_own_token_only(
    name: str, force_emit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = made(name, UNDROPPED).train()
    spy, batch = Spy(network, monkeypatch), learnable()
    loss = Likelihood(Glancing(0.6, 0.6, force_emit)).loss(network, batch, 0.0)
    canvas, shown = spy.canvases[-1], spy.shown[0][2]
    with torch.no_grad():
        emit = (canvas.states @ network.embeddings.tokens.weight.t()).log_softmax(-1)
        if force_emit:
            for row, node in shown.mask.nonzero().tolist():
                own = int(shown.token[row, node])
                kept = emit[row, node, own].clone()
                emit[row, node] = -torch.inf
                emit[row, node, own] = kept
        log_prob = network.distribution(canvas, emit).log_prob(network.emitted(batch.target))
    assert loss.metrics["nll"] == pytest.approx(float((-log_prob / batch.target.lengths).mean()), abs=1e-10)


@every_network
def test_a_shortlist_of_everything_changes_nothing(name: str) -> None:
    def loss(shortlist: int | None) -> tuple[float, dict[str, float]]:
        network = made(name, UNDROPPED).train()
        torch.manual_seed(3)
        objective = Likelihood(Glancing(0.6, 0.6, shortlist=shortlist))
        found = objective.loss(network, learnable(), 0.0)
        return found.value.item(), found.metrics

    assert loss(10**6) == loss(None)
    assert 0 < loss(0)[1]["revealed"] <= 1


@every_network
@pytest.mark.parametrize("force_emit", [False, True])
def test_what_is_shown_follows_from_the_sentence_s_seed_in_any_batch(name: str, force_emit: bool) -> None:
    network, objective = made(name, UNDROPPED).train(), Likelihood(Glancing(0.6, 0.6, force_emit))
    plain = learnable()
    batch = Batch(plain.source, plain.target, torch.tensor([7, 2**40 + 7, -3, 8]))
    together = objective.loss(network, batch, 0.0)
    alone = [objective.loss(network, one(batch, index), 0.0) for index in range(4)]
    assert together.value.item() == pytest.approx(sum(loss.value.item() for loss in alone) / 4, abs=1e-10)
    assert objective.loss(network, batch, 0.0).value.item() == together.value.item()
    others = Batch(plain.source, plain.target, torch.tensor([1, 2, 3, 4]))
    assert objective.loss(network, others, 0.0).value.item() != pytest.approx(together.value.item())


def test_seeded_noise_does_not_depend_on_the_batch() -> None:
    seeds = torch.tensor([7, 2**40 + 7, -3, 8])
    drawn = seeded_noise(seeds, 3000)
    assert torch.equal(seeded_noise(seeds[2:3], 30), drawn[2:3, :30])
    assert 0 <= float(drawn.min()) <= float(drawn.max()) < 1
    assert drawn.mean(1).tolist() == pytest.approx([0.5] * 4, abs=0.03)
    streams = torch.cat([drawn, seeded_noise(seeds, 3000, stream=1), seeded_noise(seeds, 3000, stream=2)])
    correlations = torch.corrcoef(streams) - torch.eye(12, dtype=torch.float64)
    assert float(correlations.abs().max()) < 0.08
