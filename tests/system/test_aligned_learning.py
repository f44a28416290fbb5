"""Objectives that align a translation with its target learn to copy and to reverse, as their recipes do."""

import pytest
import torch

from pcfgnat.networks import (
    DAGConfig,
    DAGNetwork,
    Network,
    PCFGConfig,
    PCFGNetwork,
    SlotsConfig,
    SlotsNetwork,
)
from pcfgnat.nn import LinkConfig
from pcfgnat.objectives import AXE, OAXE, Glancing, Ngrams
from pcfgnat.objectives.slots import SlotObjective
from tests.support.toy_tasks import SHORT_COPY, SHORT_REVERSE, ToyTask, Training, exact_match, train
from tests.support.unchecked import shapes_unchecked
from tests.support.zoo import GLANCING, LARGER

LINKS = LinkConfig(4)
FIRST = Training(steps=170, rate=3e-3, sentences=24, warm_up=30)
THEN = Training(steps=60, rate=1e-3, sentences=24, warm_up=6)
either_task = pytest.mark.parametrize("task", [SHORT_COPY, SHORT_REVERSE], ids=["copy", "reverse"])


def lattice(name: str, vocabulary: int) -> Network:
    torch.manual_seed(0)
    if name == "pcfg":
        return PCFGNetwork(PCFGConfig(LARGER, upsampling=2, rules=LINKS), vocabulary)
    return DAGNetwork(DAGConfig(LARGER, upsampling=4, transitions=LINKS), vocabulary)


def score(network: Network, task: ToyTask, objective: Ngrams) -> float:
    """The expected n-gram score of new sentences."""
    batch = task.batch(100, torch.Generator().manual_seed(5))
    return -objective.loss(network.eval(), batch, 1.0).value.item()


@pytest.mark.slow  # the default suite has `test_recipes_learn.py`
@shapes_unchecked()
@pytest.mark.parametrize("name", ["pcfg", "dag"])
@either_task
def test_ngrams_continue_what_likelihood_began(name: str, task: ToyTask) -> None:
    network, objective = lattice(name, task.vocabulary), Ngrams(Glancing(0.1, 0.1))
    train(network, GLANCING, task, FIRST)
    before = score(network, task, objective)
    train(network, objective, task, THEN)
    assert score(network, task, objective) > max(before, 0.95)
    assert exact_match(network, "joint-viterbi", task, sentences=100) >= 0.97


@shapes_unchecked()
@pytest.mark.parametrize(
    "objective",
    [
        pytest.param(AXE(skip_penalty=3.0, slots_per_token=1.3), id="axe"),
        pytest.param(OAXE(cross_entropy=0.7), id="oaxe"),
    ],
)
@either_task
def test_slots_learn_by_alignment(objective: SlotObjective, task: ToyTask) -> None:
    torch.manual_seed(0)
    config = SlotsConfig(LARGER, blank=isinstance(objective, AXE))
    network = SlotsNetwork(config, task.vocabulary)
    train(network, objective, task, Training.short())
    assert exact_match(network, "greedy", task, sentences=100) >= 0.97
