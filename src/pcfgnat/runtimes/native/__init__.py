"""Exported models of 8 bits on compiled kernels: no torch, no onnxruntime."""

from typing import TYPE_CHECKING

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.native.size import native_reason

if TYPE_CHECKING:
    from pcfgnat.runtimes.native.base import NativeRuntime


def native_runtime(exported: Exported, options: ExportedOptions | None = None) -> "NativeRuntime":
    """Load the weights of an exported model."""
    from pcfgnat.runtimes.native.hybrid import NativeHybrid  # numba takes a moment
    from pcfgnat.runtimes.native.steps import NativeSteps
    from pcfgnat.runtimes.native.tables import NativeTables

    if (reason := native_reason(exported.metadata)) is not None:
        raise CheckpointError(f"{exported.directory} cannot run on the native kernels: {reason}")
    runtimes: dict[str, type[NativeTables | NativeSteps]] = {
        "pcfg": NativeTables,
        "dag": NativeTables,
        "autoregressive": NativeSteps,
        "hybrid": NativeHybrid,
    }
    return runtimes[exported.metadata.network_name](exported, options or ExportedOptions())


__all__ = ["native_reason", "native_runtime"]
