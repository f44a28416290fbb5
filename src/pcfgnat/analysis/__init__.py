"""What the structures of a trained model look like: the analyses of the paper, on any checkpoint and text."""

from pcfgnat.analysis.concentration import concentration, concentration_report
from pcfgnat.analysis.structure import structure, structure_report
from pcfgnat.analysis.subject import AnalysisError, Subject
from pcfgnat.analysis.syntax import syntax, syntax_report
from pcfgnat.report import Report, Table

__all__ = [
    "AnalysisError",
    "Report",
    "Subject",
    "Table",
    "concentration",
    "concentration_report",
    "structure",
    "structure_report",
    "syntax",
    "syntax_report",
]
