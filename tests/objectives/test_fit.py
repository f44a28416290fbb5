"""Objectives by name, and that one which does not fit a network is refused."""

import re

import pytest
import torch

from pcfgnat.networks import Batch
from pcfgnat.objectives import (
    OBJECTIVES,
    CrossEntropy,
    FlowSeq,
    Glancing,
    Hybrid,
    Likelihood,
    Objective,
    ObjectiveError,
    Step,
)
from tests.support.sentences import batch_of
from tests.support.zoo import GLANCING, NAMES, any_network


def test_are_known_by_name() -> None:
    assert OBJECTIVES["likelihood"] is Likelihood
    assert OBJECTIVES["cross_entropy"] is CrossEntropy
    assert all(issubclass(kind, Objective) for kind in OBJECTIVES.values())
    assert {kind.weight for kind in OBJECTIVES.values()} == {"sentences", "tokens"}


@pytest.mark.parametrize(
    ("name", "objective", "message"),
    [
        (
            "autoregressive",
            Likelihood(),
            "Likelihood trains networks that fill a canvas, got AutoregressiveNetwork",
        ),
        ("pcfg", CrossEntropy(), "cross-entropy trains autoregressive networks, got PCFGNetwork"),
        ("dag", CrossEntropy(), "cross-entropy trains autoregressive networks, got DAGNetwork"),
        ("ctc", CrossEntropy(), "cross-entropy trains autoregressive networks, got CTCNetwork"),
        ("slots", CrossEntropy(), "cross-entropy trains autoregressive networks, got SlotsNetwork"),
        ("pcfg", Hybrid(), "hybrid trains hybrid networks, got PCFGNetwork"),
        ("hybrid", Likelihood(), "Likelihood trains networks that fill a canvas, got HybridNetwork"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name: str, objective: Objective, message: str) -> None:
    with pytest.raises(ObjectiveError, match=f"^{re.escape(message)}$"):
        Step(any_network(name), objective)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_the_objective_s_loss_and_the_network_s_weights(name: str) -> None:
    network, pairs = any_network(name), batch_of((5, 4), (3, 2))
    batch = Batch(pairs.source, pairs.target, torch.tensor([1, 2]))
    own = {"autoregressive": CrossEntropy(), "flowseq": FlowSeq(), "hybrid": Hybrid(Glancing(0.5, 0.1))}
    objective = own.get(name, GLANCING)
    step = Step(network, objective)
    assert {id(weight) for weight in step.parameters()} == {id(weight) for weight in network.parameters()}
    assert torch.equal(step(batch, 0.0).value, objective.loss(network, batch, 0.0).value)


@pytest.mark.parametrize("name", ["pcfg", "autoregressive"])
def test_a_step_switches_its_network_between_training_and_validation(name: str) -> None:
    step = Step(any_network(name), CrossEntropy() if name == "autoregressive" else Likelihood())
    assert step.train().network.training
    assert not step.eval().network.training
