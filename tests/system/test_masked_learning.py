"""Masked language models, through their objectives and the passes of their decoding, copy and reverse."""

from dataclasses import replace

import pytest
import torch

from pcfgnat.networks import CMLMCConfig, CMLMCNetwork, SlotsConfig, SlotsNetwork
from pcfgnat.objectives import Corrected, Masked, Objective, Smart
from tests.support.toy_tasks import SHORT_COPY, SHORT_REVERSE, ToyTask, Training, exact_match, train
from tests.support.unchecked import shapes_unchecked
from tests.support.zoo import LARGER

ONCE, REFINED = "mask-predict:iterations=1,lengths=1", "mask-predict:iterations=4,lengths=1"
UPDATED = "update-all:iterations=4,lengths=1"
FIRST, THEN = Training(200, rate=3e-3, sentences=24, warm_up=30), Training(30, rate=1e-3, warm_up=5)
either_task = pytest.mark.parametrize("task", [SHORT_COPY, SHORT_REVERSE], ids=["copy", "reverse"])


@pytest.mark.slow  # the default suite has `test_recipes_learn.py`
@shapes_unchecked()
@pytest.mark.parametrize(
    ("objective", "strategies"),
    [
        pytest.param(Masked(), (ONCE, REFINED), id="cmlm"),
        pytest.param(Smart(), (ONCE, UPDATED), id="smart"),
    ],
)
@either_task
def test_masked_models_learn(objective: Objective, strategies: tuple[str, ...], task: ToyTask) -> None:
    torch.manual_seed(0)
    network = SlotsNetwork(SlotsConfig(LARGER), task.vocabulary)
    train(network, objective, task, Training.short())
    for strategy in strategies:
        assert exact_match(network, strategy, task, sentences=100) >= 0.97, strategy


@shapes_unchecked()
@either_task
def test_cmlmc_continues_what_a_masked_model_began(task: ToyTask) -> None:
    shorter = replace(task, words=6, longest=4)
    torch.manual_seed(0)
    network = CMLMCNetwork(CMLMCConfig(LARGER), shorter.vocabulary)
    train(network, Masked(), shorter, FIRST)
    train(network, Corrected(replaced=0.5), shorter, THEN)
    for strategy in (ONCE, UPDATED):
        assert exact_match(network, strategy, shorter, sentences=100) >= 0.97, strategy
