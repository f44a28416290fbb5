"""Text to text: `Translator.load(directory)("Hello.")`."""

from pcfgnat.translator.distillation import (
    distill,
    pair_files,
    recorded_runtime,
    training_sources,
    translate_into,
)
from pcfgnat.translator.form import Form, Notices, terminal_width
from pcfgnat.translator.job import job_record
from pcfgnat.translator.loading import (
    bundled_model,
    describe_model,
    exported_for,
    load_converted,
    load_model,
    model_directory,
)
from pcfgnat.translator.resumable import FileJob, translate_file
from pcfgnat.translator.splitting import split_to_fit
from pcfgnat.translator.translation import Candidate, Translation
from pcfgnat.translator.translator import TranslateOptions, Translator

__all__ = [
    "Candidate",
    "FileJob",
    "Form",
    "Notices",
    "TranslateOptions",
    "Translation",
    "Translator",
    "bundled_model",
    "describe_model",
    "distill",
    "exported_for",
    "job_record",
    "load_converted",
    "load_model",
    "model_directory",
    "pair_files",
    "recorded_runtime",
    "split_to_fit",
    "terminal_width",
    "training_sources",
    "translate_file",
    "translate_into",
]
