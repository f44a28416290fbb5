"""What runs an exported model, if nobody says so: the native kernels where they can, or else onnxruntime."""

from typing import Literal

from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions, ExportedRuntime
from pcfgnat.runtimes.native import native_reason, native_runtime
from pcfgnat.runtimes.onnx import onnx_runtime

ExportedName = Literal["native", "onnx"]


def chosen_runtime(exported: Exported, wanted: Literal["auto", "native", "onnx"] = "auto") -> ExportedName:
    """Return what an exported model runs on."""
    if wanted != "auto":
        return wanted
    return "native" if native_reason(exported.metadata) is None else "onnx"


def run_exported(
    exported: Exported,
    options: ExportedOptions | None = None,
    wanted: Literal["auto", "native", "onnx"] = "auto",
) -> ExportedRuntime:
    """Load an exported model."""
    load = native_runtime if chosen_runtime(exported, wanted) == "native" else onnx_runtime
    return load(exported, options)
