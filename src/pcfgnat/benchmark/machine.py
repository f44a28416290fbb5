"""What a figure was measured on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pcfgnat import __version__

PACKAGES = ("torch", "numpy", "numba", "sentencepiece", "onnxruntime", "ctranslate2")
# What matters to matrix products, of the many things that a CPU can do.
FLAGS = (
    "avx2",
    "fma",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
)
SETTINGS = ("OMP_", "ONEDNN_", "MKL_", "CT2_")
CPU_INFO, MEMORY_INFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")


def machine() -> dict[str, Any]:
    """Describe processor, memory, software, and how busy the machine is."""
    facts = _fields(CPU_INFO)
    flags = facts.get("flags", "").split()
    return {
        "processor": facts.get("model name") or platform.processor() or platform.machine(),
        "flags": [flag for flag in FLAGS if flag in flags],
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "pcfgnat": __version__,
        "packages": {name: _version(name) for name in PACKAGES},
        "load_average_at_start": [round(load, 2) for load in os.getloadavg()],
        "environment": {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)},
    }


def free_memory() -> int | None:
    """Return how many bytes processes can still take; none where the system does not report it."""
    known = _fields(MEMORY_INFO).get("MemAvailable")
    return None if known is None else int(known.split()[0]) * 1024


def summary(facts: dict[str, Any]) -> str:
    """Return a description in one line."""
    versions = ", ".join(f"{name} {found}" for name, found in facts["packages"].items() if found)
    return (
        f"{facts['processor']} ({' '.join(facts['flags']) or 'no known flags'}), {facts['cores']} cores, "
        f"{facts['memory_gb']} GB; Python {facts['python']}, pcfgnat {facts['pcfgnat']}, {versions}; "
        f"load average at the start {facts['load_average_at_start'][0]}"
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _fields(path: Path) -> dict[str, str]:
    """Read `name: value` lines; the first of each name counts."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found
