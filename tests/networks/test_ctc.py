"""CTC: what bos, eos and the blank are to its network."""

import pytest
import torch

from pcfgnat.networks import CTCConfig
from pcfgnat.networks.ctc import BLANK
from pcfgnat.networks.emissions import target_distribution, translation_distribution
from pcfgnat.structures import CTC, Padded
from pcfgnat.text.special import SPECIAL_TOKENS
from tests.support.lattices import ctc_oracle
from tests.support.oracle import log_sum
from tests.support.sentences import BOS, EOS, batch_of
from tests.support.zoo import made


def test_bos_and_eos_are_not_emitted() -> None:
    network, target = made("ctc"), Padded.from_lists([[BOS, 5, 6, EOS], [BOS, EOS], [BOS], []])
    assert network.emitted(target).to_lists() == [[5, 6], [], [], []]


def test_the_blank_comes_first_among_a_target_s_tokens() -> None:
    assert SPECIAL_TOKENS.pad == BLANK
    found, local = target_distribution(made("ctc"), batch_of((4, 5)))
    assert isinstance(found, CTC)
    assert found.blank == BLANK == 0
    assert BLANK not in local.to_lists()[0]
    assert found.num_slots.tolist() == [8]  # two for each source token


def test_log_prob_equals_enumeration() -> None:
    source = Padded(torch.tensor([[5]]), torch.tensor([1]))  # two slots
    canvas = translation_distribution(made("ctc"), source)
    assert isinstance(canvas, CTC)
    for target in ([5], [5, 6], []):
        expected = log_sum([score for score, _ in ctc_oracle(canvas, 0).of(target)])
        found = canvas.log_prob(Padded.from_lists([target]))
        assert float(found) == pytest.approx(expected, abs=1e-10)


def test_bad_configs_are_named() -> None:
    with pytest.raises(ValueError, match="upsampling must be at least 1, got 0"):
        CTCConfig(upsampling=0)
