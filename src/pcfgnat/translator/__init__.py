"""Text to text: `Translator.load(directory)("Hello.")`."""

from pcfgnat.translator.distillation import distill, pair_files, translate_into
from pcfgnat.translator.loading import (
    bundled_model,
    describe_model,
    exported_for,
    load_model,
    model_directory,
)
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation
from pcfgnat.translator.translator import TranslateOptions, Translator

__all__ = [
    "Candidate",
    "TranslateOptions",
    "Translation",
    "Translator",
    "bundled_model",
    "describe_model",
    "distill",
    "exported_for",
    "load_model",
    "model_directory",
    "pair_files",
    "split_to_fit",
    "translate_into",
]
