"""What runs an exported model, if nobody says so: the native kernels where they can, or else onnxruntime."""

from pathlib import Path
from typing import Literal

from pcfgnat.runtimes import native
from pcfgnat.runtimes.exported import Exported
from pcfgnat.runtimes.exported_runtime import ExportedOptions, ExportedRuntime
from pcfgnat.runtimes.machine import available_cores
from pcfgnat.runtimes.native import native_reason, native_runtime
from pcfgnat.runtimes.onnx import onnx_runtime
from pcfgnat.runtimes.onnx.sessions import onnxruntime_is_installed

ExportedName = Literal["native", "onnx"]
KERNELS = Path(native.__file__).parent / "kernels" / "network.py"
LARGE = (
    20_000_000  # weights of a network that gains by several threads for one sentence, which onnxruntime has
)


def chosen_runtime(
    exported: Exported,
    wanted: Literal["auto", "native", "onnx"] = "auto",
    options: ExportedOptions | None = None,
) -> ExportedName:
    """Return what an exported model runs on."""
    if wanted != "auto":
        return wanted
    if native_reason(exported.metadata) is not None:
        return "onnx"
    if not onnxruntime_is_installed():
        return "native"
    threads = (options.threads if options else None) or available_cores()
    divided = threads > 1 and exported.network_weights >= LARGE
    return "native" if kernels_are_kept() and not divided else "onnx"


def kernels_are_kept() -> bool:
    """Whether what is compiled once need not be compiled again by the next process."""
    from pcfgnat.grammar.compiled import cache_directories, is_writable

    return kernels_are_compiled() or any(map(is_writable, cache_directories(KERNELS)))


def kernels_are_compiled() -> bool:
    """Whether the native kernels have been compiled before."""
    from pcfgnat.grammar.compiled import cache_directories

    return any(any(place.glob(f"{KERNELS.stem}.*.nbi")) for place in cache_directories(KERNELS))


def run_exported(
    exported: Exported,
    options: ExportedOptions | None = None,
    wanted: Literal["auto", "native", "onnx"] = "auto",
) -> ExportedRuntime:
    """Load an exported model."""
    chosen = chosen_runtime(exported, wanted, options)
    load = native_runtime if chosen == "native" else onnx_runtime
    return load(exported, options)
