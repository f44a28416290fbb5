"""Distributions over sentences with hidden structure, and the dynamic programs that answer questions of them.

No text, no vocabulary, no network. Usable as a library of its own. What needs torch is imported when it is
first asked for: plain values such as `ParseTree` and `Search` serve programs that run without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pcfgnat.grammar.parse_tree import ParseTree
from pcfgnat.grammar.search import Hypothesis, Search, SpecialTokens
from pcfgnat.grammar.support_tree import PrefixRule, SupportTree
from pcfgnat.structures.backend import backend

if TYPE_CHECKING:
    from pcfgnat.structures.ctc.distribution import CTC, CTCPosterior
    from pcfgnat.structures.dag import DAG, DAGPosterior
    from pcfgnat.structures.distribution import Alignment, Padded, Posterior, SequenceDistribution
    from pcfgnat.structures.independent import Independent, IndependentPosterior
    from pcfgnat.structures.rhpcfg.distribution import RHPCFG, RHPCFGPosterior
    from pcfgnat.structures.rhpcfg.scores import RuleMarginals, RuleScores

# with torch: where to find each name
_ORIGINS = {
    "CTC": "ctc.distribution",
    "CTCPosterior": "ctc.distribution",
    "DAG": "dag",
    "DAGPosterior": "dag",
    "Alignment": "distribution",
    "Padded": "distribution",
    "Posterior": "distribution",
    "SequenceDistribution": "distribution",
    "Independent": "independent",
    "IndependentPosterior": "independent",
    "RHPCFG": "rhpcfg.distribution",
    "RHPCFGPosterior": "rhpcfg.distribution",
    "RuleMarginals": "rhpcfg.scores",
    "RuleScores": "rhpcfg.scores",
}

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
    "RuleMarginals",
    "RuleScores",
    "Search",
    "SequenceDistribution",
    "SpecialTokens",
    "SupportTree",
    "backend",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch (PEP 562)."""
    if name not in _ORIGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pcfgnat.structures.{_ORIGINS[name]}"), name)
