"""Slots: their number is the target's in training, and otherwise predicted."""

import pytest
import torch

from pcfgnat.grammar.canvas import SAME_LENGTH
from pcfgnat.networks import SlotsConfig, SlotsNetwork, inference
from pcfgnat.networks.emissions import translation_distribution
from pcfgnat.structures import Independent, Padded
from tests.support.sentences import VOCABULARY, sentences, source_of
from tests.support.zoo import SMALL, predict_length


def slots() -> SlotsNetwork:
    torch.manual_seed(0)
    return SlotsNetwork(SlotsConfig(SMALL), VOCABULARY).double().eval()


def lengths_of(network: SlotsNetwork, source: Padded) -> list[int]:
    found = translation_distribution(network, source)
    assert isinstance(found, Independent)
    lengths: list[int] = found.lengths.tolist()
    return lengths


@pytest.mark.parametrize(
    ("label", "lengths"),
    [(SAME_LENGTH, [7, 2, 40]), (SAME_LENGTH - 3, [4, 2, 37]), (0, [2, 2, 2]), (255, [134, 129, 167])],
)
def test_translations_have_the_predicted_length(label: int, lengths: list[int]) -> None:
    network = slots()
    predict_length(network, label)
    assert lengths_of(network, source_of(7, 2, 40)) == lengths


def test_the_target_s_length_is_known_in_training() -> None:
    network = slots()
    with inference(network):
        memory = network.encode(source_of(7, 2, 40))
    target = Padded.from_lists([*sentences(3, 9), [2]])
    assert network.canvas_lengths(memory, target).tolist() == [3, 9, 2]


def test_the_length_is_predicted_from_the_sentence_alone() -> None:
    network = slots()
    assert network.length is not None
    network.length.weight.data *= 100
    rows = sentences(7, 2, 5, 9)
    together = lengths_of(network, Padded.from_lists(rows))
    assert together == [lengths_of(network, Padded.from_lists([row]))[0] for row in rows]
    assert len(set(together)) > 1
