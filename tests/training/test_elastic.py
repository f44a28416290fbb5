"""torchrun starts workers again that were killed, and passes on that people want to stop."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcfgnat.storage.toml import dump_toml
from tests.training.processes import train_together
from tests.training.small_runs import figures, hidden, rows, settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CHANGES = (
    "steps=40",
    "network.transformer.dropout=0.3",
    "validation.every=10",
    "save_every_minutes=0.01",
    "ema.decay=0.9",
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")


def started(config: Path, *options: str) -> subprocess.Popen[str]:
    command = [*TORCHRUN, *options, "-m", "pcfgnat", "train", str(config)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for_step(agent: subprocess.Popen[str], log: Path, step: int) -> None:
    while agent.poll() is None and not (log.exists() and len(rows(log)) >= step):
        time.sleep(0.01)
    assert agent.poll() is None, agent.communicate()[1]


def workers(agent: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text(encoding="utf-8")
    found = [int(number) for number in children.split()]
    return [pid for pid in found if b"pcfgnat" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_killed_workers_and_a_stop(data: Path, tmp_path: Path) -> None:
    train_together(2, [settings(data, tmp_path / "whole", *CHANGES)])
    output, config = tmp_path / "run", tmp_path / "config.toml"
    config.write_text(dump_toml(settings(data, output, *CHANGES)), encoding="utf-8")

    agent = started(config, "--max-restarts", "3")
    wait_for_step(agent, output / "log.csv", 12)
    os.kill(workers(agent)[1], signal.SIGKILL)
    wait_for_step(agent, output / "log.csv", 24)
    agent.send_signal(signal.SIGINT)
    said = agent.communicate()[1]
    assert agent.returncode != 0
    assert "resuming" in said
    assert "interrupted at step" in said
    assert 24 <= len(rows(output / "log.csv")) < 40

    agent = started(config)
    said = agent.communicate()[1]
    assert agent.returncode == 0, said
    assert "resuming" in said
    for log in ("log.csv", "valid.csv"):
        assert figures(output / log) == figures(tmp_path / "whole" / log)
    assert not hidden(output)
