"""The first losses of every network are those that were recorded: a refactoring must not change them.

They are of a fixed small network and fixed sentences, with dropout and glancing, so that the order of random
numbers is guarded too. If a change is meant to change them, `python -m tests.test_golden` prints new ones.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from pcfgnat.networks import NETWORKS, Batch
from pcfgnat.structures import Padded
from pcfgnat.training.config import BatchConfig, EmaConfig, OptimiserConfig, TrainConfig
from pcfgnat.training.learner import Learner

STEPS = 5
VOCABULARY = 12
TRANSFORMER = {"layers_encoder": 1, "layers_decoder": 1, "width": 16, "ffn": 32, "heads": 2}
PLAIN: dict[str, Any] = {"name": "likelihood"}
GLANCING = {**PLAIN, "glancing": {"first": 0.5, "last": 0.1}}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "autoregressive": {"name": "cross_entropy", "label_smoothing": 0.1},
    "pcfg": GLANCING,
    "dag": GLANCING,
    "ctc": PLAIN,
    "slots": PLAIN,
    "cmlmc": {"name": "cmlmc"},
    "imputer": {"name": "imputer"},
    "disco": {"name": "disco"},
    "flowseq": {"name": "flowseq"},
    "hybrid": {**GLANCING, "name": "hybrid"},
}
RECORDED = {
    "autoregressive": [3.288892, 3.027352, 3.072308, 2.876685, 2.77318],
    "pcfg": [3.051731, 2.791617, 2.843987, 2.768419, 2.981988],
    "dag": [2.376167, 2.449808, 2.395486, 2.384747, 2.404926],
    "ctc": [5.986717, 5.582781, 5.420113, 5.396227, 5.020037],
    "slots": [2.849732, 3.120162, 2.723859, 2.481426, 2.523543],
    "cmlmc": [4.002161, 3.351699, 3.315256, 3.420383, 3.487858],
    "imputer": [2.61945, 2.389369, 5.304002, 2.934644, 4.581715],
    "disco": [3.451173, 3.493708, 3.37507, 3.14251, 3.3383],
    "flowseq": [13.64262, 73.95403, 92.50625, 52.17569, 54.51178],
    "hybrid": [6.06134, 5.944645, 5.578642, 5.849204, 5.991944],
}
# two unequal batches, each of sources and targets
BATCHES = [
    ([[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 3]], [[2, 9, 3], [2, 5, 5, 6, 3], [2, 4, 6, 3]]),
    ([[2, 4, 3]], [[2, 8, 3]]),
]


def learner(name: str) -> Learner:
    config = TrainConfig(
        data=Path("data"),
        output=Path("run"),
        network={"name": name, "transformer": TRANSFORMER},
        objective=OBJECTIVES[name],
        batches=BatchConfig(sentences=8),
        steps=STEPS,
        optimiser=OptimiserConfig(rate=0.01, warm_up=4),
        ema=EmaConfig(0.9),
    )
    torch.manual_seed(0)
    build, _ = NETWORKS[name]
    return Learner(build(config.network_config(), VOCABULARY), config, torch.device("cpu"))


def losses(name: str) -> list[float]:
    """Train for a few steps with both batches each."""
    chosen = learner(name)
    torch.manual_seed(1)
    batches = [Batch(Padded.from_lists(source), Padded.from_lists(target)) for source, target in BATCHES]
    return [chosen.step(batches, 1e-3, step / STEPS, step).loss for step in range(STEPS)]


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_are_those_of_before(name: str) -> None:
    assert losses(name) == pytest.approx(RECORDED[name], rel=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for network in NETWORKS:
        print(f'    "{network}": [{", ".join(f"{loss:.7g}" for loss in losses(network))}],')
