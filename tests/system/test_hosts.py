"""Training on three hosts, one of which is cut off from the others half-way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pcfgnat.storage.toml import dump_toml
from pcfgnat.training import train
from tests.system.hosts import Hosts, why_not
from tests.training.conftest import prepared
from tests.training.small_runs import rows, settings, small_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

STEPS, CUT = 60, 15
CHANGES = (
    f"steps={STEPS}",
    "network.transformer.dropout=0.0",
    "validation.every=20",
    "save_every_minutes=0.02",
    "distributed.timeout_minutes=1.5",
)
TORCHRUN = (
    sys.executable,
    *("-m", "torch.distributed.run", "--nnodes", "2:3", "--nproc-per-node", "1", "--max-restarts", "3"),
    *("--rdzv-backend", "c10d", "--rdzv-id", "pcfgnat"),
)
RENDEZVOUS = "last_call_timeout=15,read_timeout=20"


def until(condition: Callable[[], bool], what: str, seconds: float = 1200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def last_step(log: Path) -> int:
    return int(rows(log)[-1]["step"]) if log.exists() and rows(log) else 0


def test_the_others_go_on_when_a_host_is_cut_off(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    data = prepared(tmp_path)
    train(small_run(data, tmp_path / "alone", *CHANGES))
    config, output = tmp_path / "config.toml", tmp_path / "together"
    config.write_text(dump_toml(settings(data, output, *CHANGES)), encoding="utf-8")
    agents: list[subprocess.Popen[bytes]] = []
    with Hosts(3) as hosts:
        for number in (1, 2, 3):
            place = ("--rdzv-endpoint", f"{hosts.address(1)}:29400", "--local-addr", hosts.address(number))
            conf = ("--rdzv-conf", f"is_host={int(number == 1)},{RENDEZVOUS}")
            command = [*TORCHRUN, *place, *conf, "-m", "pcfgnat", "train", str(config)]
            agents.append(hosts.start(number, command, tmp_path / f"host{number}.log"))
        try:
            until(lambda: last_step(output / "log.csv") >= CUT, "steps")
            hosts.cut_off(3)
            for number in (0, 1):
                assert agents[number].wait(1800) == 0, (tmp_path / f"host{number + 1}.log").read_text()
        finally:
            for agent in agents:
                if agent.poll() is None:
                    os.killpg(agent.pid, signal.SIGKILL)
                    agent.wait()
    said = [(tmp_path / f"host{number}.log").read_text() for number in (1, 2, 3)]
    assert all("cannot continue" in text for text in said)  # the third one too, which has no quorum alone
    assert sum(f"going on with {output} at step" in text for text in said) == 1
    assert "60 steps at step 60" not in said[2]
    compare(tmp_path / "alone", output)


def compare(alone: Path, together: Path) -> None:
    one, many = rows(alone / "log.csv"), rows(together / "log.csv")
    assert [row["step"] for row in many] == [row["step"] for row in one] == [str(i + 1) for i in range(STEPS)]
    for row, other in zip(one, many, strict=True):
        assert float(other["loss"]) == pytest.approx(float(row["loss"]), rel=1e-3), row["step"]
    assert (together / "final").is_dir()
