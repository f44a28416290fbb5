"""Translation with exported models on onnxruntime and compiled kernels; no torch."""

from pcfgnat.engine.description import EngineDescription, Exported, Shape, ShortlistFacts
from pcfgnat.engine.engine import Engine, EngineOptions
from pcfgnat.engine.runtime import runtime_is_there

__all__ = [
    "Engine",
    "EngineDescription",
    "EngineOptions",
    "Exported",
    "Shape",
    "ShortlistFacts",
    "runtime_is_there",
]
