"""The first losses of every model are those that were recorded: a refactoring must not change them.

They are of a fixed small model and fixed sentences, with dropout and glancing, so that the order of random
numbers is guarded too. If a change is meant to change them, `python -m tests.test_golden` prints new ones.
"""

import pytest
import torch

from pcfgnat.networks import NETWORKS
from tests.training.test_learner import batch, learner

STEPS = 5
RECORDED = {
    "autoregressive": [3.288892, 3.027352, 3.072308, 2.876685, 2.77318],
    "pcfg": [3.051731, 2.791617, 2.843987, 2.768419, 2.981988],
    "dag": [2.376167, 2.449808, 2.395486, 2.384747, 2.404926],
    "ctc": [5.986717, 5.582781, 5.420113, 5.396227, 5.020037],
    "vanilla": [2.849732, 3.120162, 2.723859, 2.481426, 2.523543],
}


def losses(name: str) -> list[float]:
    """Train for a few steps with two unequal batches each."""
    chosen = learner(f"network.name={name}", "ema.decay=0.9")
    torch.manual_seed(1)
    batches = [batch(0, 1, 2), batch(3)]
    return [chosen.step(batches, 1e-3, step / STEPS, step).loss for step in range(STEPS)]


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_are_those_of_before(name: str) -> None:
    assert losses(name) == pytest.approx(RECORDED[name], rel=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for model in NETWORKS:
        print(f'    "{model}": [{", ".join(f"{loss:.7g}" for loss in losses(model))}],')
