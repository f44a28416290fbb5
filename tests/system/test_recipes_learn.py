"""Systems learn to copy and to reverse, both in one short training; fine-tuned ones share a start.

AXE and OAXE: `test_aligned_learning.py`, CMLMC: `test_masked_learning.py`; the slow tests there and in
`test_learning.py` are the same from random weights, one task at a time.
"""

from dataclasses import replace

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
    ImputerNetwork,
    Network,
    PCFGConfig,
    PCFGNetwork,
    SlotsConfig,
    SlotsNetwork,
)
from pcfgnat.nn import LinkConfig
from pcfgnat.nn.flow import FlowConfig
from pcfgnat.objectives import (
    CrossEntropy,
    Disco,
    FlowSeq,
    Glancing,
    Imputer,
    Likelihood,
    Masked,
    Ngrams,
    Objective,
    Smart,
)
from tests.support.toy_tasks import BOTH, ToyTask, Training, exact_match, train
from tests.support.unchecked import shapes_unchecked
from tests.support.zoo import GLANCING, LARGER

SIZE = replace(LARGER, layers_encoder=1, layers_decoder=1)
LINKS = LinkConfig(4)
FIRST = Training(steps=200, rate=3e-3, sentences=96, warm_up=25)
LONGER = replace(FIRST, steps=300)
THEN = Training(steps=40, rate=1e-3, sentences=48, warm_up=5)
IMPUTED = replace(FIRST, rate=2e-3)
MASKED = replace(FIRST, steps=100, rate=2e-3)  # what is partly shown is new to it
ONCE, REFINED = "mask-predict:iterations=1,lengths=1", "mask-predict:iterations=4,lengths=1"
UPDATED = "update-all:iterations=4,lengths=1"


def seeded() -> int:
    """Begin with the same random numbers; return the size of the vocabulary."""
    torch.manual_seed(0)
    return BOTH.vocabulary


def loss(network: Network, objective: Objective) -> float:
    """The loss of new sentences."""
    torch.manual_seed(7)
    batch = BOTH.batch(100, torch.Generator().manual_seed(5))
    with torch.no_grad():
        return objective.loss(network.eval(), batch, 1.0).value.item()


def assert_right(network: Network, *strategies: str) -> None:
    for strategy in strategies:
        assert exact_match(network, strategy, BOTH, sentences=100) >= 0.95, strategy


def assert_learns(
    network: Network, objective: Objective, *strategies: str, training: Training = FIRST
) -> None:
    """Train from the start."""
    train(network, objective, BOTH, training)
    assert_right(network, *strategies)


def assert_continues(
    network: Network, objective: Objective, *strategies: str, training: Training = THEN
) -> None:
    """Train what has learnt by another objective: its loss falls, and its translations stay right."""
    before = loss(network, objective)
    train(network, objective, BOTH, training, seed=1)
    assert loss(network, objective) < before
    assert_right(network, *strategies)


def test_autoregressive() -> None:
    network = AutoregressiveNetwork(AutoregressiveConfig(SIZE), seeded())
    assert_learns(network, CrossEntropy(0.1), "greedy", "beam", training=LONGER)


def test_vanilla_then_cmlm_then_smart() -> None:
    network = SlotsNetwork(SlotsConfig(SIZE), seeded())
    assert_learns(network, Likelihood(), "greedy")
    assert_continues(network, Masked(), ONCE, REFINED, training=MASKED)
    assert_continues(network, Smart(), ONCE, UPDATED)


def test_disco() -> None:
    network = DiscoNetwork(DiscoConfig(SIZE), seeded())
    assert_learns(network, Disco(), "easy-first:lengths=1", REFINED, training=LONGER)


def test_ctc_and_the_imputer() -> None:
    start = CTCNetwork(CTCConfig(SIZE), seeded())
    assert_learns(start, Likelihood(), "greedy", "beam", training=LONGER)
    imputer = ImputerNetwork(CTCConfig(SIZE), seeded())
    imputer.load_state_dict(start.state_dict())
    strategies = (f"imputation:iterations={passes}" for passes in (1, 4))
    assert_continues(imputer, Imputer(), *strategies, training=IMPUTED)


def test_ctc_with_glancing() -> None:
    assert_learns(CTCNetwork(CTCConfig(SIZE), seeded()), GLANCING, "greedy", "beam")


@pytest.mark.parametrize("name", ["pcfg", "dag"])
def test_grammars_and_graphs_then_by_ngrams(name: str) -> None:
    network: Network
    if name == "pcfg":
        network = PCFGNetwork(PCFGConfig(SIZE, upsampling=2, rules=LINKS), seeded())
    else:
        network = DAGNetwork(DAGConfig(SIZE, upsampling=4, transitions=LINKS), seeded())
    strategies, training = (
        ("viterbi", "joint-viterbi", "lookahead", "greedy"),
        FIRST if name == "pcfg" else LONGER,
    )
    assert_learns(network, GLANCING, *strategies, training=training)
    assert_continues(network, Ngrams(Glancing(0.1, 0.1)), "joint-viterbi")


@shapes_unchecked()
def test_flowseq_learns_to_copy() -> None:
    flow = FlowConfig((1,), ffn=64, heads=4)
    config = FlowSeqConfig(SIZE, layers_posterior=1, word_dropout=0.0, flow=flow)
    task = ToyTask(reverse=False, words=6, longest=4)
    torch.manual_seed(0)
    network = FlowSeqNetwork(config, task.vocabulary)
    objective = FlowSeq(label_smoothing=0.0, annealing=0.5)
    train(network, objective, task, Training(200, 3e-3, sentences=48, warm_up=20))
    for strategy in ("greedy", "importance:lengths=1,samples=4"):
        assert exact_match(network, strategy, task, sentences=100) >= 0.95, strategy
