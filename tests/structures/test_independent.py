import math

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.structures import Independent, Padded, Search, SpecialTokens
from tests.support.lattices import random_tokens
from tests.support.unchecked import shapes_unchecked

SPECIAL = SpecialTokens(bos=0, eos=1, pad=2, unk=3)


def test_log_prob_is_the_sum_over_positions() -> None:
    log_probs = random_tokens(2, 4, 5)
    distribution = Independent(log_probs, torch.tensor([4, 2]))
    found = distribution.log_prob(Padded.from_lists([[1, 2, 3, 0], [4, 4]]))
    first = log_probs[0, torch.arange(4), torch.tensor([1, 2, 3, 0])].sum()
    assert_close(found, torch.stack([first, log_probs[1, 0, 4] + log_probs[1, 1, 4]]))


@pytest.mark.parametrize("strategy", ["greedy", "viterbi"])
def test_mode_is_the_argmax(strategy: str) -> None:
    log_probs = random_tokens(2, 4, 5)
    hypotheses = Independent(log_probs, torch.tensor([4, 2])).mode(Search(strategy))
    for b, length in enumerate([4, 2]):
        assert hypotheses[b].ids == tuple(log_probs[b, :length].argmax(-1).tolist())
        assert hypotheses[b].score == pytest.approx(float(log_probs[b, :length].max(-1).values.sum()))
        assert hypotheses[b].nodes == tuple(range(length))
        assert hypotheses[b].tree is None


def test_special_tokens_stand_only_at_the_ends() -> None:
    log_probs = random_tokens(8, 9, 6, scale=3.0)
    lengths = torch.tensor([9, 8, 7, 6, 5, 4, 3, 2])
    for b, hypothesis in enumerate(Independent(log_probs, lengths).mode(Search(special_tokens=SPECIAL))):
        length = int(lengths[b])
        assert hypothesis.ids[0] == SPECIAL.bos
        assert hypothesis.ids[-1] == SPECIAL.eos
        assert hypothesis.ids[1:-1] == tuple((log_probs[b, 1 : length - 1, 4:].argmax(-1) + 4).tolist())
        scores = [float(log_probs[b, i, token]) for i, token in enumerate(hypothesis.ids)]
        assert hypothesis.score == pytest.approx(math.fsum(scores))


def test_longer_targets_do_not_see_the_padding() -> None:
    log_probs = random_tokens(1, 4, 5)
    log_probs[:, 2:] = math.nan
    log_probs.requires_grad_()
    log_prob = Independent(log_probs, torch.tensor([2])).log_prob(Padded.from_lists([[1, 2, 3]]))
    assert log_prob.tolist() == [-math.inf]
    (gradient,) = torch.autograd.grad(log_prob.sum(), log_probs)
    assert bool((gradient == 0).all())


@shapes_unchecked()
def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match=r"log_probs must have shape \(B, N, V\), got \(2, 3\)"):
        Independent(torch.zeros(2, 3), torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"lengths must be in 1 … 3, got \[0, 2\]"):
        Independent(torch.zeros(2, 3, 4), torch.tensor([0, 2]))
    with pytest.raises(
        ValueError, match=r"lengths must be whole numbers of shape \(2,\), got torch.int64 \(3,\)"
    ):
        Independent(torch.zeros(2, 3, 4), torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="lengths must be on cpu like log_probs, got meta"):
        Independent(torch.zeros(2, 3, 4), torch.tensor([1, 2], device="meta"))
