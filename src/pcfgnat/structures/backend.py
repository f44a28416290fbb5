"""Which implementation runs: compiled kernels where they apply, plain torch everywhere else."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BACKENDS = ("auto", "numba", "triton", "reference")
_chosen: ContextVar[str | None] = ContextVar("pcfgnat_backend", default=None)
_has_numba = importlib.util.find_spec("numba") is not None
_has_triton = importlib.util.find_spec("triton") is not None


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Choose an implementation for a block: `auto`, `reference`, `numba` or `triton`.

    The last two raise where they cannot run.
    """
    token = _chosen.set(_checked(name))
    try:
        yield
    finally:
        _chosen.reset(token)


def use_numba(*tensors: "torch.Tensor") -> bool:
    """Whether the kernels for the CPU run on these tensors."""
    return chosen_backend(*tensors) == "numba"


def chosen_backend(*tensors: "torch.Tensor") -> str:
    """Return `numba`, `triton` or `reference`, whichever runs on these tensors."""
    name = _chosen.get() or _checked(os.environ.get("PCFGNAT_BACKEND", "auto"))
    if name == "auto":
        return next((kind for kind in ("numba", "triton") if obstacle(kind, *tensors) is None), "reference")
    if name != "reference" and (reason := obstacle(name, *tensors)):
        raise RuntimeError(f"the {name} backend {reason}")
    return name


def obstacle(name: str, *tensors: "torch.Tensor") -> str | None:
    """Return why a backend cannot run on these tensors; None if it can."""
    return _numba_obstacle(*tensors) if name == "numba" else _triton_obstacle(*tensors)


def _numba_obstacle(*tensors: "torch.Tensor") -> str | None:
    import torch

    unfit = [t for t in tensors if t.device.type != "cpu" or t.dtype not in (torch.float32, torch.float64)]
    if unfit or not _has_numba:
        found = f"{unfit[0].dtype} on {unfit[0].device}" if unfit else "no numba"
        return f"needs numba and float32 or float64 on the CPU, got {found}"
    return None


def _triton_obstacle(*tensors: "torch.Tensor") -> str | None:
    """Shapes can be traced on the meta device; the interpreter runs kernels on the CPU, slowly."""
    devices = {"cuda", "meta"} | ({"cpu"} if os.environ.get("TRITON_INTERPRET") == "1" else set())
    for tensor in tensors:
        if tensor.device.type not in devices:
            return f"needs a CUDA device, got {tensor.device}"
        if not tensor.is_floating_point() or tensor.itemsize < 2:
            return f"needs float16, bfloat16, float32 or float64, got {tensor.dtype}"
    if not _has_triton:
        return "needs the package triton, which is not installed"
    return None


def _checked(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {name!r}")
    return name
