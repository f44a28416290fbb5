"""Distributions over sentences with hidden structure, and the dynamic programs that answer questions of them.

Torch only: no text, no vocabulary, no network. Usable as a library of its own.
"""

from pcfgnat.structures.backend import backend
from pcfgnat.structures.ctc import CTC, CTCPosterior
from pcfgnat.structures.dag import DAG, DAGPosterior
from pcfgnat.structures.distribution import (
    Alignment,
    Hypothesis,
    Padded,
    Posterior,
    Search,
    SequenceDistribution,
    SpecialTokens,
)
from pcfgnat.structures.independent import Independent, IndependentPosterior
from pcfgnat.structures.parse_tree import ParseTree
from pcfgnat.structures.rhpcfg.distribution import RHPCFG, RHPCFGPosterior
from pcfgnat.structures.rhpcfg.scores import RuleScores
from pcfgnat.structures.rhpcfg.support_tree import PrefixRule, SupportTree

__all__ = [
    "CTC",
    "DAG",
    "RHPCFG",
    "Alignment",
    "CTCPosterior",
    "DAGPosterior",
    "Hypothesis",
    "Independent",
    "IndependentPosterior",
    "Padded",
    "ParseTree",
    "Posterior",
    "PrefixRule",
    "RHPCFGPosterior",
    "RuleScores",
    "Search",
    "SequenceDistribution",
    "SpecialTokens",
    "SupportTree",
    "backend",
]
