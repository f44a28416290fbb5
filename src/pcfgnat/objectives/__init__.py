"""Objectives by name: frozen values with their own settings, independent of networks and decoding."""

from pcfgnat.objectives.axe import AXE
from pcfgnat.objectives.base import Loss, Objective, ObjectiveError, Step
from pcfgnat.objectives.canvas import CanvasObjective
from pcfgnat.objectives.cross_entropy import CrossEntropy
from pcfgnat.objectives.disco import Disco
from pcfgnat.objectives.flowseq import FlowSeq
from pcfgnat.objectives.hybrid import Hybrid
from pcfgnat.objectives.imputer import Imputer
from pcfgnat.objectives.likelihood import Likelihood
from pcfgnat.objectives.masked import Corrected, Masked, Smart
from pcfgnat.objectives.ngrams import Ngrams
from pcfgnat.objectives.oaxe import OAXE
from pcfgnat.objectives.reveal.glancing import Glancing

OBJECTIVES: dict[str, type[Objective]] = {
    "likelihood": Likelihood,
    "cross_entropy": CrossEntropy,
    "masked": Masked,
    "smart": Smart,
    "cmlmc": Corrected,
    "imputer": Imputer,
    "disco": Disco,
    "ngrams": Ngrams,
    "axe": AXE,
    "oaxe": OAXE,
    "flowseq": FlowSeq,
    "hybrid": Hybrid,
}

__all__ = [
    "AXE",
    "OAXE",
    "OBJECTIVES",
    "CanvasObjective",
    "Corrected",
    "CrossEntropy",
    "Disco",
    "FlowSeq",
    "Glancing",
    "Hybrid",
    "Imputer",
    "Likelihood",
    "Loss",
    "Masked",
    "Ngrams",
    "Objective",
    "ObjectiveError",
    "Smart",
    "Step",
]
