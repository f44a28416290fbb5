"""How good translations are: BLEU, chrF, repeated and missing words, lengths, significance, comparisons."""

from pcfgnat.evaluation.comparison import AUTOMATIC_BETAS, Comparison, choose_measures, parse_betas
from pcfgnat.evaluation.evaluation_set import EvaluationSet, read_translations
from pcfgnat.evaluation.judging import Judged, judge_lines, judge_model, on_stderr, swept
from pcfgnat.evaluation.report import Report, SweepPoint, SystemReport, render
from pcfgnat.evaluation.scores import Measures, Scores, Significance, compare, measures_for
from pcfgnat.evaluation.tokenizers import BLEU_TOKENIZERS, ScoreError, bleu_tokenizer

__all__ = [
    "AUTOMATIC_BETAS",
    "BLEU_TOKENIZERS",
    "Comparison",
    "EvaluationSet",
    "Judged",
    "Measures",
    "Report",
    "ScoreError",
    "Scores",
    "Significance",
    "SweepPoint",
    "SystemReport",
    "bleu_tokenizer",
    "choose_measures",
    "compare",
    "judge_lines",
    "judge_model",
    "measures_for",
    "on_stderr",
    "parse_betas",
    "read_translations",
    "render",
    "swept",
]
