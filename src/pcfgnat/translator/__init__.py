"""Text to text: `Translator.load(directory)("Hello.")`."""

from pcfgnat.translator.distillation import PairFiles, distill
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation
from pcfgnat.translator.translator import TranslateOptions, Translator, embedded_model

__all__ = [
    "Candidate",
    "PairFiles",
    "TranslateOptions",
    "Translation",
    "Translator",
    "distill",
    "embedded_model",
    "split_to_fit",
]
