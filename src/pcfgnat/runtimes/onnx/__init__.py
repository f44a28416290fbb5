"""Translation with exported models on onnxruntime and compiled kernels; no torch."""

from pcfgnat.runtimes.onnx.description import EngineDescription, Exported, Shape, ShortlistFacts
from pcfgnat.runtimes.onnx.engine import Engine, EngineOptions
from pcfgnat.runtimes.onnx.runtime import runtime_is_there

__all__ = [
    "Engine",
    "EngineDescription",
    "EngineOptions",
    "Exported",
    "Shape",
    "ShortlistFacts",
    "runtime_is_there",
]
