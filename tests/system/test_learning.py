"""Every network, through its objective and every strategy that searches, learns to copy and to reverse."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from pcfgnat.networks import (
    AutoregressiveConfig,
    AutoregressiveNetwork,
    CTCConfig,
    CTCNetwork,
    DAGConfig,
    DAGNetwork,
    DiscoConfig,
    DiscoNetwork,
    FlowSeqConfig,
    FlowSeqNetwork,
    HybridConfig,
    HybridNetwork,
    ImputerNetwork,
    Network,
    PCFGConfig,
    PCFGNetwork,
    SlotsConfig,
    SlotsNetwork,
)
from pcfgnat.nn import LinkConfig
from pcfgnat.nn.flow import FlowConfig
from pcfgnat.objectives import CrossEntropy, Disco, FlowSeq, Glancing, Hybrid, Imputer, Likelihood, Objective
from tests.support.toy_tasks import (
    COPY,
    REVERSE,
    SHORT_COPY,
    SHORT_REVERSE,
    ToyTask,
    Training,
    exact_match,
    train,
)
from tests.support.unchecked import shapes_unchecked
from tests.support.zoo import GLANCING, LARGER

LINKS = LinkConfig(4)
STRUCTURED = ("viterbi", "joint-viterbi", "lookahead", "greedy")
pytestmark = pytest.mark.slow  # the default suite has `test_recipes_learn.py`
either_task = pytest.mark.parametrize("task", [SHORT_COPY, SHORT_REVERSE], ids=["copy", "reverse"])


def one_pass(name: str, vocabulary: int) -> Network:
    torch.manual_seed(0)
    if name == "pcfg":
        return PCFGNetwork(PCFGConfig(LARGER, upsampling=2, rules=LINKS), vocabulary)
    if name == "dag":
        return DAGNetwork(DAGConfig(LARGER, upsampling=4, transitions=LINKS), vocabulary)
    if name == "ctc":
        return CTCNetwork(CTCConfig(LARGER), vocabulary)
    return SlotsNetwork(SlotsConfig(LARGER), vocabulary)


@shapes_unchecked()
@pytest.mark.parametrize(
    ("name", "objective", "strategies"),
    [
        pytest.param("pcfg", GLANCING, STRUCTURED, id="pcfg"),
        pytest.param("dag", GLANCING, STRUCTURED, id="dag"),
        pytest.param("ctc", Likelihood(), ("greedy", "beam"), id="ctc"),
        pytest.param("ctc", GLANCING, ("greedy", "beam"), id="ctc with glancing"),
        pytest.param("slots", Likelihood(), ("greedy",), id="slots"),
    ],
)
@either_task
def test_one_pass_networks_learn(
    name: str, objective: Objective, strategies: tuple[str, ...], task: ToyTask
) -> None:
    network = one_pass(name, task.vocabulary)
    train(network, objective, task, Training.short())
    for strategy in strategies:
        assert exact_match(network, strategy, task, sentences=100) >= 0.97, strategy


@shapes_unchecked()
@either_task
def test_disco_learns(task: ToyTask) -> None:
    torch.manual_seed(0)
    network = DiscoNetwork(DiscoConfig(LARGER), task.vocabulary)
    train(network, Disco(), task, Training.short())
    for strategy in ("easy-first:lengths=1", "mask-predict:iterations=4,lengths=1"):
        assert exact_match(network, strategy, task, sentences=100) >= 0.97, strategy


@shapes_unchecked()
@either_task
def test_the_imputer_learns_from_ctc_on(task: ToyTask) -> None:
    torch.manual_seed(0)
    network = ImputerNetwork(CTCConfig(LARGER), task.vocabulary)
    train(network, Likelihood(), task, Training(steps=150, rate=3e-3, sentences=24, warm_up=30))
    train(network, Imputer(), task, Training(steps=200, rate=2e-3, sentences=24, warm_up=30), seed=1)
    for strategy in ("imputation:iterations=1", "imputation:iterations=4", "imputation:blocks=true"):
        assert exact_match(network, strategy, task, sentences=100) >= 0.95, strategy


@shapes_unchecked()
@pytest.mark.parametrize(
    ("drafter", "task"),
    [("pcfg", SHORT_COPY), pytest.param("dag", SHORT_REVERSE, marks=pytest.mark.slow)],
    ids=["pcfg", "dag"],
)
def test_both_heads_of_a_hybrid_learn(drafter: Literal["pcfg", "dag"], task: ToyTask) -> None:
    torch.manual_seed(0)
    size, depth = replace(LARGER, layers_decoder=1), 1 if drafter == "pcfg" else 0
    config = HybridConfig(size, upsampling=2, prefix_depth=depth, rules=LINKS, drafter=drafter)
    network = HybridNetwork(config, task.vocabulary)
    steps = 250 if drafter == "pcfg" else 400
    train(network, Hybrid(Glancing(0.5, 0.1)), task, Training(steps, rate=3e-3, sentences=24, warm_up=30))
    for strategy in ("joint-viterbi", "greedy", "verify", "rescore:size=3"):
        assert exact_match(network, strategy, task, sentences=60) >= 0.96, strategy


@shapes_unchecked()
def test_flowseq_learns_to_copy() -> None:
    torch.manual_seed(0)
    size = replace(LARGER, layers_encoder=1, layers_decoder=1)
    config = FlowSeqConfig(size, layers_posterior=1, flow=FlowConfig((1,), ffn=64, heads=4))
    network = FlowSeqNetwork(config, SHORT_COPY.vocabulary)
    train(network, FlowSeq(annealing=0.2), SHORT_COPY, Training(300, 3e-3, sentences=24, warm_up=30))
    assert exact_match(network, "greedy", SHORT_COPY, sentences=100) >= 0.75


@pytest.mark.parametrize("task", [COPY, REVERSE], ids=["copy", "reverse"])
def test_autoregressive_networks_learn(task: ToyTask) -> None:
    torch.manual_seed(0)
    network = AutoregressiveNetwork(AutoregressiveConfig(LARGER), task.vocabulary)
    train(network, CrossEntropy(0.1), task, Training(steps=350, rate=3e-3))
    for strategy in ("greedy", "beam"):
        assert exact_match(network, strategy, task) >= 0.99, strategy
