"""CTC: what bos, eos and the blank are to it, and what it can learn."""

import pytest
import torch
from torch.testing import assert_close

from pcfgnat.networks import Batch, CTCNetwork, CTCConfig
from pcfgnat.networks.ctc import BLANK
from pcfgnat.objectives import Glancing
from pcfgnat.structures import CTC, Padded, Search
from tests.networks.parallel_models import LARGER, made
from tests.networks.sentences import BOS, EOS, one, sentences
from tests.networks.toy_tasks import SHORT_COPY, SHORT_REVERSE, ToyTask, Training, exact_match, train
from tests.support.lattices import ctc_oracle
from tests.support.oracle import log_sum
from tests.support.unchecked import shapes_unchecked


def test_bos_and_eos_are_added_but_not_emitted() -> None:
    model = made("ctc")
    for strategy in ("greedy", "beam", "sample"):
        for found in model.translate(Padded.from_lists(sentences(7, 4)), Search(strategy)):
            for hypothesis in found:
                assert (hypothesis.ids[0], hypothesis.ids[-1]) == (BOS, EOS)
                assert (hypothesis.nodes[0], hypothesis.nodes[-1]) == (-1, -1)
                assert list(hypothesis.nodes[1:-1]) == sorted(set(hypothesis.nodes[1:-1]) - {-1})
                assert BLANK not in hypothesis.ids


def test_log_prob_equals_enumeration() -> None:
    model = made("ctc")
    source = Padded(torch.tensor([[5]]), torch.tensor([1]))  # two slots
    canvas = model.translation_distribution(source)
    assert isinstance(canvas, CTC)
    for target in ([BOS, 5, EOS], [BOS, 5, 6, EOS], [BOS, EOS]):
        expected = log_sum([score for score, _ in ctc_oracle(canvas, 0).of(target[1:-1])])
        loss = model.loss(Batch(source, Padded.from_lists([target])), 0.0)
        assert loss.value.item() == pytest.approx(-expected / len(target), abs=1e-10)


@pytest.mark.parametrize("impossible", [[4, 5, 6, 7, 8], [4, 4, 4], [4, BLANK]])
def test_what_does_not_fit_into_the_slots_is_left_out(impossible: list[int]) -> None:
    model = made("ctc")
    targets = Padded.from_lists([[BOS, 4, 5, EOS], [BOS, *impossible, EOS]])
    batch = Batch(Padded.from_lists(sentences(2, 2)), targets)  # four slots each
    loss = model.loss(batch, 0.0)
    assert (loss.sentences, loss.tokens, loss.skipped) == (1, 4, 1)
    assert_close(loss.value, model.loss(one(batch, 0), 0.0).value)


@pytest.mark.parametrize("limit", [3, 4, 6])
def test_a_limited_beam_counts_bos_and_eos(limit: int) -> None:
    model, source = made("ctc"), Padded.from_lists(sentences(9, 12))
    free = model.translate(source, Search("beam"))
    assert max(len(found[0].ids) for found in free) > 6
    assert all(len(found[0].ids) <= limit for found in model.translate(source, Search("beam", limit)))


def test_glancing_is_off_unless_asked_for() -> None:
    assert not CTCConfig().glancing.enabled
    batch = Batch(Padded.from_lists(sentences(5)), Padded.from_lists(sentences(4, seed=1)))
    assert "revealed" not in made("ctc", glancing=CTCConfig().glancing).train().loss(batch, 0.0).metrics
    assert "revealed" in made("ctc", glancing=Glancing()).train().loss(batch, 0.0).metrics


def test_bad_configs_are_named() -> None:
    with pytest.raises(ValueError, match="upsampling must be at least 1, got 0"):
        CTCConfig(upsampling=0)


@shapes_unchecked()
@pytest.mark.parametrize("glancing", [CTCConfig().glancing, Glancing()], ids=["plain", "glancing"])
@pytest.mark.parametrize("task", [SHORT_COPY, SHORT_REVERSE])
def test_learns(task: ToyTask, glancing: Glancing) -> None:
    torch.manual_seed(0)
    model = CTCNetwork(CTCConfig(LARGER, glancing), task.vocabulary)
    train(model, task, Training.short())
    for strategy in ("greedy", "beam"):
        assert exact_match(model, task, Search(strategy), sentences=100) >= 0.97
