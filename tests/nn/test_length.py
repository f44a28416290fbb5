"""The length head against the mean of states and the softmax of its classes."""

import pytest
import torch

from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.nn import LengthHead

WIDTH = 6


def head() -> LengthHead:
    torch.manual_seed(0)
    return LengthHead(WIDTH).double()


@torch.no_grad()
@pytest.mark.parametrize(("source", "target"), [(5, 5), (5, 3), (3, 8), (2, 150), (140, 2), (140, 12)])
def test_a_length_costs_its_cross_entropy(source: int, target: int) -> None:
    made, states = head(), torch.randn(1, source + 2, WIDTH, dtype=torch.float64)
    mask, lengths = torch.arange(source + 2)[None] < source, torch.tensor([source])
    scores = made.scores(states, mask, lengths)
    expected = made(states[0, :source].mean(0)).float().log_softmax(0)
    label = min(max(target - source + SAME_LENGTH, 0), LENGTH_CLASSES - 1)
    cost = LengthHead.cost(scores, lengths, torch.tensor([target]))
    assert cost.tolist() == pytest.approx([-float(expected[label])], abs=1e-6)


@torch.no_grad()
def test_padding_is_not_read() -> None:
    made, lengths = head(), torch.tensor([4, 2])
    mask = torch.arange(4) < lengths.unsqueeze(1)
    states = torch.randn(2, 4, WIDTH, dtype=torch.float64)
    garbage = states.masked_fill(~mask.unsqueeze(2), torch.nan)
    assert torch.equal(made.scores(states, mask, lengths), made.scores(garbage, mask, lengths))
