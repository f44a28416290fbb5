"""Whole training steps with the kernels: plain, under autocast, checkpointed, and in two processes.

These share their gradients by DDP or FSDP.

On a GPU if there is one, else in the interpreter, as the comparison of the kernels.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, multiprocessing
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from pcfgnat.networks import Batch, CanvasNetwork
from pcfgnat.objectives import Glancing, Likelihood, Step
from pcfgnat.structures import Padded, backend
from pcfgnat.training.config import TrainingError
from pcfgnat.training.hardware import probe_bfloat16
from pcfgnat.training.processes.exchange import Exchange, Replicated
from pcfgnat.training.processes.sharded import Sharded
from tests.support.zoo import SMALL, UNDROPPED, made

pytestmark = pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning")  # log 0 = -inf
DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
OBJECTIVE = Likelihood(Glancing(0.5, 0.1))
SOURCE = [[2, 5, 3], [2, 8, 9, 3]]
TARGET = [[2, 5, 5, 3], [2, 4, 3]]
EXCHANGES: dict[str, Callable[[Step], Exchange]] = {"ddp": Replicated, "fsdp": Sharded}
NETWORKS = ["pcfg", "dag", "ctc"]
Found = tuple[Tensor, dict[str, Tensor]]


def batch_of(*rows: int) -> Batch:
    source, target = (Padded.from_lists([side[row] for row in rows]).to(DEVICE) for side in (SOURCE, TARGET))
    return Batch(source, target, torch.tensor(rows, device=DEVICE) + 7)


def learned(network: CanvasNetwork, value: Tensor) -> Found:
    """Return the loss and its gradients, which are then forgotten."""
    value.backward()  # type: ignore[no-untyped-call]
    found = {name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None}
    network.zero_grad(set_to_none=True)
    return value.detach(), found


def stepped(network: CanvasNetwork, batch: Batch) -> Found:
    torch.manual_seed(0)
    return learned(network, OBJECTIVE.loss(network, batch, 0.5).value)


def assert_same(found: Found, expected: Found, rtol: float = 1e-7, atol: float = 1e-9) -> None:
    assert_close(found[0], expected[0], rtol=rtol, atol=atol)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        assert_close(found[1][name], gradient, rtol=rtol, atol=atol, msg=name)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_is_the_references(name: str) -> None:
    network, found = made(name, SMALL).to(DEVICE).train(), []
    for kernels in ("triton", "reference"):
        with backend(kernels):
            found.append(stepped(network, batch_of(0, 1)))
    assert_same(found[0], found[1])


@pytest.mark.parametrize("name", ["pcfg", "ctc"])
def test_a_step_under_autocast_is_the_references(name: str) -> None:
    """Matrix products are rounded alike in both, sums over structures are not."""
    if DEVICE.type == "cpu":
        try:
            probe_bfloat16()
        except TrainingError as error:
            pytest.skip(str(error))
    network, found = made(name, UNDROPPED).float().to(DEVICE).train(), []
    for kernels in ("triton", "reference"):
        with backend(kernels), torch.autocast(DEVICE.type, torch.bfloat16):
            loss = OBJECTIVE.loss(network, batch_of(0, 1), 0.5)
        found.append(learned(network, loss.value))
    assert found[0][0].dtype == torch.float32
    assert_same(found[0], found[1], rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", ["pcfg", "ctc"])
def test_a_checkpointed_step_is_the_same(name: str) -> None:
    """What is not kept is computed again, with the same numbers drawn for dropout and glancing."""
    network, batch = made(name, SMALL).to(DEVICE).train(), batch_of(0, 1)

    def value() -> Tensor:
        return OBJECTIVE.loss(network, batch, 0.5).value

    with backend("triton"):
        plain = stepped(network, batch)
        torch.manual_seed(0)
        again: Tensor = checkpoint(value, use_reentrant=False)
        assert_same(learned(network, again), plain)


def in_parallel(rank: int, store: str, exchange: str) -> Found:
    """Take one of two processes' part in a step, on its own sentence."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timedelta(minutes=5)
    )
    try:
        network = made("pcfg", UNDROPPED).to(DEVICE).train()
        shared = EXCHANGES[exchange](Step(network, OBJECTIVE))
        with backend("triton"), shared.piece(last=True):
            value, gradients = learned(network, shared.loss(batch_of(rank), 0.5).value)
        return value, shared.whole(gradients)
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_two_processes_share_their_gradients(exchange: str, tmp_path: Path) -> None:
    given = (str(tmp_path / "store"), exchange)
    other = multiprocessing.get_context("spawn").Process(target=in_parallel, args=(1, *given))
    other.start()
    value, gradients = in_parallel(0, *given)
    other.join()
    assert other.exitcode == 0
    network = made("pcfg", UNDROPPED).to(DEVICE).train()
    with backend("reference"):
        alone = [stepped(network, batch_of(row)) for row in (0, 1)]
    mean = {name: (one + alone[1][1][name]) / 2 for name, one in alone[0][1].items()}
    assert_same((value, gradients), (alone[0][0], mean))
