"""How good translations are: BLEU, chrF, lengths, significance, and a report of several systems."""

from pcfgnat.evaluation.report import Report, SweepPoint, SystemReport, render
from pcfgnat.evaluation.scores import Measures, Scores, Significance, compare, measures_for

__all__ = [
    "Measures",
    "Report",
    "Scores",
    "Significance",
    "SweepPoint",
    "SystemReport",
    "compare",
    "measures_for",
    "render",
]
