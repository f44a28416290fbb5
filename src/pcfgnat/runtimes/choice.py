"""What runs an exported model, if nobody says so: the native kernels where they can, or else onnxruntime."""

from pathlib import Path
from typing import Literal

from pcfgnat.runtimes import native
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions, ExportedRuntime
from pcfgnat.runtimes.native import native_reason, native_runtime
from pcfgnat.runtimes.onnx import onnx_runtime
from pcfgnat.runtimes.onnx.sessions import onnxruntime_is_installed

ExportedName = Literal["native", "onnx"]


def chosen_runtime(exported: Exported, wanted: Literal["auto", "native", "onnx"] = "auto") -> ExportedName:
    """Return what an exported model runs on."""
    if wanted != "auto":
        return wanted
    if native_reason(exported.metadata) is not None:
        return "onnx"
    return "native" if not onnxruntime_is_installed() or kernels_are_kept() else "onnx"


def kernels_are_kept() -> bool:
    """Whether what is compiled once need not be compiled again by the next process."""
    from pcfgnat.grammar.compiled import cache_directories, is_writable

    places = cache_directories(Path(native.__file__).parent / "kernels" / "network.py")
    return any(is_writable(place) or any(place.glob("network.*.nbi")) for place in places)


def run_exported(
    exported: Exported,
    options: ExportedOptions | None = None,
    wanted: Literal["auto", "native", "onnx"] = "auto",
) -> ExportedRuntime:
    """Load an exported model."""
    load = native_runtime if chosen_runtime(exported, wanted) == "native" else onnx_runtime
    return load(exported, options)
