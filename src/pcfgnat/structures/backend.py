"""Which implementation runs: compiled kernels where they apply, plain torch everywhere else."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BACKENDS = ("auto", "numba", "reference")
_chosen: ContextVar[str | None] = ContextVar("pcfgnat_backend", default=None)
_has_numba = importlib.util.find_spec("numba") is not None


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Choose an implementation for a block: `auto`, `numba` (fail where it can't run) or `reference`."""
    token = _chosen.set(_checked(name))
    try:
        yield
    finally:
        _chosen.reset(token)


def use_numba(*tensors: "torch.Tensor") -> bool:
    """Whether the compiled kernels run on these tensors: float32 or float64 on the CPU, numba installed."""
    import torch

    name = _chosen.get() or _checked(os.environ.get("PCFGNAT_BACKEND", "auto"))
    if name == "reference":
        return False
    unfit = [t for t in tensors if t.device.type != "cpu" or t.dtype not in (torch.float32, torch.float64)]
    if name == "numba" and (unfit or not _has_numba):
        found = f"{unfit[0].dtype} on {unfit[0].device}" if unfit else "no numba"
        raise RuntimeError(f"the numba backend needs numba and float32 or float64 on the CPU, got {found}")
    return _has_numba and not unfit


def _checked(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {name!r}")
    return name
