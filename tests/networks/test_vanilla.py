"""SlotsNetwork NAT: its length predictor, and what it can learn."""

import pytest
import torch

from pcfgnat.networks import Batch, SlotsNetwork, SlotsConfig
from pcfgnat.networks.slots import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.structures import Padded, Search
from tests.networks.parallel_models import LARGER, SMALL, predict_length
from tests.networks.sentences import VOCABULARY, sentences
from tests.networks.toy_tasks import SHORT_COPY, SHORT_REVERSE, ToyTask, Training, exact_match, train
from tests.support.unchecked import shapes_unchecked


def vanilla(length_weight: float = 0.1) -> SlotsNetwork:
    torch.manual_seed(0)
    return SlotsNetwork(SlotsConfig(SMALL, length_weight=length_weight), VOCABULARY).double().eval()


@pytest.mark.parametrize(
    ("label", "lengths"),
    [(SAME_LENGTH, [7, 2, 40]), (SAME_LENGTH - 3, [4, 2, 37]), (0, [2, 2, 2]), (255, [134, 129, 167])],
)
def test_translations_have_the_predicted_length(label: int, lengths: list[int]) -> None:
    model = vanilla()
    predict_length(model, label)
    results = model.translate(Padded.from_lists(sentences(7, 2, 40)), Search("greedy"))
    assert [len(found[0].ids) for found in results] == lengths


@pytest.mark.parametrize(("source", "target"), [(5, 5), (5, 3), (3, 8), (2, 150), (40, 2)])
def test_the_length_costs_its_cross_entropy(source: int, target: int) -> None:
    model, states = vanilla(length_weight=0.7), []
    model.encoder.register_forward_hook(lambda _module, _inputs, output: states.append(output))
    batch = Batch(Padded.from_lists(sentences(source)), Padded.from_lists(sentences(target, seed=1)))
    loss = model.loss(batch, 0.0)
    scores = model.length(states[0][0].mean(0)).float().log_softmax(0)
    label = min(target - source + SAME_LENGTH, LENGTH_CLASSES - 1)
    assert loss.metrics["extra_loss"] == pytest.approx(-0.7 * scores[label].item(), abs=1e-6)
    assert loss.value.item() == pytest.approx(loss.metrics["nll"] + loss.metrics["extra_loss"], abs=1e-6)


def test_the_length_is_predicted_from_the_sentence_alone() -> None:
    model = vanilla()
    model.length.weight.data *= 100
    rows = sentences(7, 2, 5, 9)
    together = model.translate(Padded.from_lists(rows), Search("greedy"))
    alone = [model.translate(Padded.from_lists([row]), Search("greedy"))[0] for row in rows]
    assert [len(found[0].ids) for found in together] == [len(found[0].ids) for found in alone]
    assert len({len(found[0].ids) for found in together}) > 1


def test_the_longest_target_is_named() -> None:
    source = Padded.from_lists(sentences(4))
    with pytest.raises(ValueError, match="a sentence must have at most 168 positions, got 169"):
        vanilla().loss(Batch(source, Padded.from_lists(sentences(169))), 0.0)
    with pytest.raises(ValueError, match=r"length_weight must be positive, got 0\.0"):
        SlotsConfig(length_weight=0.0)


def test_glancing_is_off_unless_asked_for() -> None:
    assert not SlotsConfig().glancing.enabled


@shapes_unchecked()
@pytest.mark.parametrize("task", [SHORT_COPY, SHORT_REVERSE])
def test_learns(task: ToyTask) -> None:
    torch.manual_seed(0)
    model = SlotsNetwork(SlotsConfig(LARGER), task.vocabulary)
    train(model, task, Training.short())
    assert exact_match(model, task, Search("greedy"), sentences=100) >= 0.97
