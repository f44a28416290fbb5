"""The command that reports what an installation can do."""

import json
from importlib.metadata import version
from typing import Any

import pytest
import torch

from pcfgnat.cli import doctor, main


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["doctor", "--json"]) == 0
    found: dict[str, dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_it_names_the_backend_and_why_not_another(capsys: pytest.CaptureFixture[str]) -> None:
    cpu = report(capsys)["devices"]["cpu"]
    assert cpu["backend for float32"] == "numba"
    assert cpu["backend for bfloat16"] == "reference"
    assert cpu["why not numba"] == "needs numba and float32 or float64 on the CPU, got torch.bfloat16 on cpu"
    assert cpu["why not triton"].startswith("needs a CUDA device, got cpu")
    assert cpu["threads"] == str(torch.get_num_threads())
    assert cpu["bfloat16"] == "works" or "bfloat16 does not work on this CPU" in cpu["bfloat16"]


def test_people_get_a_line_per_fact(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"system", "packages", "devices"} <= set(lines)
    assert any(line.split() == ["torch", version("torch")] for line in lines)


def test_it_runs_without_torch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "_version", lambda package: "not installed")
    found = report(capsys)
    assert found["devices"].keys() == {"none"}
    assert all(value == "not installed" for value in found["packages"].values())
