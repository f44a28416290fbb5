"""Text to text: `Translator.load(directory)("Hello.")`."""

from pcfgnat.translator.distillation import distill, pair_files, translate_into
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation
from pcfgnat.translator.translator import (
    TranslateOptions,
    Translator,
    describe_model,
    embedded_model,
    engine_for,
)

__all__ = [
    "Candidate",
    "TranslateOptions",
    "Translation",
    "Translator",
    "describe_model",
    "distill",
    "embedded_model",
    "engine_for",
    "pair_files",
    "split_to_fit",
    "translate_into",
]
