"""Exported models on onnxruntime and compiled kernels; no torch."""

from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.runtimes.exported import Exported, ExportedMetadata, Shape, ShortlistFacts, is_exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions
from pcfgnat.runtimes.onnx.base import OnnxRuntime
from pcfgnat.runtimes.onnx.hybrid import OnnxHybrid
from pcfgnat.runtimes.onnx.one_pass import OnnxFrames, OnnxTables
from pcfgnat.runtimes.onnx.sessions import onnxruntime_is_installed
from pcfgnat.runtimes.onnx.slots import OnnxOpenFrames, OnnxSlots, OnnxVisibleSlots
from pcfgnat.runtimes.onnx.steps import OnnxSteps

# what runs an exported network, by the network's name
ONNX_RUNTIMES: dict[str, type[OnnxTables | OnnxFrames | OnnxSlots | OnnxOpenFrames | OnnxSteps]] = {
    "pcfg": OnnxTables,
    "dag": OnnxTables,
    "ctc": OnnxFrames,
    "slots": OnnxSlots,
    "cmlmc": OnnxSlots,
    "imputer": OnnxOpenFrames,
    "disco": OnnxVisibleSlots,
    "autoregressive": OnnxSteps,
    "hybrid": OnnxHybrid,
}


def onnx_runtime(exported: Exported, options: ExportedOptions | None = None) -> OnnxRuntime:
    """Load the graphs of an exported model."""
    name = exported.metadata.network_name
    if name not in ONNX_RUNTIMES:
        known = ", ".join(ONNX_RUNTIMES)
        raise CheckpointError(f"{exported.directory}: network.name must be one of {known}, got {name!r}")
    return ONNX_RUNTIMES[name](exported, options or ExportedOptions())


__all__ = [
    "ONNX_RUNTIMES",
    "Exported",
    "ExportedMetadata",
    "ExportedOptions",
    "OnnxRuntime",
    "Shape",
    "ShortlistFacts",
    "is_exported",
    "onnx_runtime",
    "onnxruntime_is_installed",
]
