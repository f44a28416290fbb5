"""`pcfgnat doctor`: what this machine and installation can do."""

import argparse
import json
import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from pcfgnat import __version__
from pcfgnat.cli.options import Commands, new_command

if TYPE_CHECKING:
    import torch

DESCRIPTION = """\
Report versions, devices and threads, which backend sums over structures on which device and why not
another, and whether bfloat16 works. Nothing is sent anywhere; attach the output to a bug report.
"""
PACKAGES = ("torch", "triton", "numba", "numpy", "onnxruntime", "onnx", "ctranslate2", "sentencepiece")


def add_command(commands: Commands) -> None:
    """Describe the command's options."""
    parser = new_command(commands, "doctor", "describe this installation", DESCRIPTION, run)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print the report."""
    facts = {"system": _system(), "packages": _packages(), "devices": _devices()}
    if options.json:
        print(json.dumps(facts, indent=2))
        return
    for title, table in facts.items():
        print(title)
        print("\n".join(_lines(table, "  ")))


def _system() -> dict[str, Any]:
    return {
        "pcfgnat": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "not limited by OMP_NUM_THREADS"),
        "backend": os.environ.get("PCFGNAT_BACKEND", "auto"),
    }


def _packages() -> dict[str, str]:
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _devices() -> dict[str, Any]:
    """Return what each device would compute with; torch may be missing."""
    if _version("torch") == "not installed":
        return {"none": "torch is not installed; exported models run with onnxruntime, on the CPU"}
    import torch

    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    found: dict[str, Any] = {name: _device(torch.device(name)) for name in names}
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        found["cuda"] = {"available": f"no: {'no device found' if built else 'torch was built without CUDA'}"}
    return found


def _device(device: "torch.device") -> dict[str, str]:
    import torch

    from pcfgnat.structures.backend import BACKENDS, chosen_backend, obstacle

    facts = {"threads": str(torch.get_num_threads())} if device.type == "cpu" else _gpu(device)
    facts["bfloat16"] = _bfloat16(device)
    for dtype in (torch.float32, torch.bfloat16):
        scores = torch.zeros(1, dtype=dtype, device=device)
        facts[f"backend for {str(dtype).removeprefix('torch.')}"] = chosen_backend(scores)
        for name in BACKENDS:
            if name in ("numba", "triton") and (reason := obstacle(name, scores)):
                facts.setdefault(f"why not {name}", reason)
    return facts


def _gpu(device: "torch.device") -> dict[str, str]:
    import torch

    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "memory": f"{properties.total_memory / 1e9:.0f} GB",
        "compute capability": f"{properties.major}.{properties.minor}",
    }


def _bfloat16(device: "torch.device") -> str:
    import torch

    from pcfgnat.training.config import TrainingError
    from pcfgnat.training.hardware import probe_bfloat16

    if device.type != "cpu":
        return "works" if torch.cuda.is_bf16_supported() else "not supported by this GPU"
    try:
        probe_bfloat16()
    except TrainingError as error:
        return str(error)
    return "works"


def _lines(table: dict[str, Any], indent: str) -> Iterator[str]:
    width = max(map(len, table))
    for name, value in table.items():
        if isinstance(value, dict):
            yield f"{indent}{name}"
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{indent}{name:<{width}}  {value}"
