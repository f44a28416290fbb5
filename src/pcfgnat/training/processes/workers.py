"""Several processes that train one model together, as torchrun starts them.

Every process takes every decision itself, from numbers that all of them have: those are gathered here. What
goes from process to process is JSON, so that no message is ever run as code.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pcfgnat.training.config import DistributedConfig, TrainingError
from pcfgnat.training.processes.meeting import own_store

# Control messages are small and go over the CPU; gradients go over whatever holds them.
BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


@dataclass(frozen=True)
class Workers:
    """The processes of a run, of which this is number `rank`; the first one writes all that is written."""

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def gathered(self, value: Any) -> list[Any]:
        """Return what each process gave, in the order of their ranks; plain data only. All must call this."""
        if self.size == 1:
            return [value]
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([len(content)]))
        rows = [torch.zeros(max(map(int, sizes)), dtype=torch.uint8) for _ in range(self.size)]
        row = torch.zeros_like(rows[0])
        row[: len(content)] = content
        dist.all_gather(rows, row)
        return [json.loads(bytes(row[: int(size)].tolist())) for row, size in zip(rows, sizes, strict=True)]

    def of_main(self, number: float) -> float:
        """Return the number that the first process gave."""
        if self.size == 1:
            return number
        told = torch.tensor([number], dtype=torch.float64)
        dist.broadcast(told, 0)
        return float(told)

    def any(self, flag: bool) -> bool:
        """Whether it is true in any process."""
        if self.size == 1:
            return flag
        told = torch.tensor([int(flag)])
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return bool(told)

    def wait(self) -> None:
        """Wait until all processes are here."""
        self.any(False)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """A block that the other processes enter when the first one is through."""
        if not self.main:
            self.wait()
        yield
        if self.main:
            self.wait()

    def seed(self, *numbers: int) -> None:
        """Seed each process differently in a step, in the same way whenever the step is repeated.

        A process alone has its generator saved and restored instead.
        """
        if self.size > 1:
            mixed = 0
            for number in (*numbers, self.rank, self.size):
                mixed = (mixed * 1_000_003 + number) % 2**63
            torch.manual_seed(mixed)


ALONE = Workers()


def local_rank() -> int:
    """Return which of this machine's processes this is: also which of its GPUs it may use."""
    return int(os.environ.get("LOCAL_RANK", "0"))


@contextmanager
def joined(config: DistributedConfig, device: torch.device) -> Iterator[Workers]:
    """Meet the other processes that torchrun started; a process that it did not start is alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    timeout = timedelta(minutes=config.timeout_minutes)
    try:
        store, rank, size = own_store(timeout)
        backend = BACKENDS[device.type]
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(f"cannot meet the other {size - 1} processes: {_first_line(error)}") from error
    workers = Workers(rank, size)
    try:
        yield workers
    except RuntimeError as error:
        raise TrainingError(
            f"process {workers.rank} of {size} cannot continue: {_first_line(error)}; restart the run to "
            "resume from its last save"
        ) from error
    dist.destroy_process_group()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
