"""Small trainings in several processes that work together, without the time that torchrun takes to start."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

CHILD = """
import json, os, sys
import torch
from pcfgnat.config import from_dict
from pcfgnat.nn import emission
from pcfgnat.objectives import Likelihood
from pcfgnat.training import TrainConfig, train

emission.NEGLIGIBLE = 0.0  # it is a share of a process's own gradients
sound, calls = Likelihood.loss, 0

def sick(objective, network, batch, progress):
    global calls
    calls += 1
    loss = sound(objective, network, batch, progress)
    if calls == 2 and os.environ["RANK"] == "1":
        loss.value.register_hook(lambda gradient: gradient * float("nan"))
    return loss

for plain, port in json.loads(sys.argv[1]):
    os.environ["MASTER_PORT"] = str(port)
    Likelihood.loss = sick if plain["output"].endswith("sick") else sound
    train(from_dict(TrainConfig, plain))
"""


def train_together(processes: int, runs: list[dict[str, Any]]) -> None:
    """Do some runs, one after the other, in new processes."""
    jobs = json.dumps([(plain, free_port()) for plain in runs])
    children = []
    for rank in range(processes):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1"}
        environment = {**os.environ, **{name: str(value) for name, value in place.items()}}
        command = [sys.executable, "-c", CHILD, jobs]
        children.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    try:
        said = [child.communicate()[1] for child in children]
    finally:
        for child in children:
            child.kill()
    assert not any(child.returncode for child in children), "\n".join(said)
    assert not any(said[1:]), "only the first process may say something"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def files(directory: Path) -> set[str]:
    """Names of all that a run wrote, but for saves and checkpoints."""
    return {path.name for path in directory.iterdir()}
