"""Translation models by name: a class, built from its config and the vocabulary's size, and that config."""

from collections.abc import Callable
from typing import Any

from pcfgnat.models.autoregressive import Autoregressive, AutoregressiveConfig
from pcfgnat.models.base import SPECIAL_TOKENS, Batch, Loss, Model
from pcfgnat.models.ctc import Collapsing, CTCConfig
from pcfgnat.models.dag import DAGConfig, DirectedAcyclic
from pcfgnat.models.parallel import ParallelModel
from pcfgnat.models.pcfg import PCFG, PCFGConfig
from pcfgnat.models.vanilla import Vanilla, VanillaConfig

MODELS: dict[str, tuple[Callable[[Any, int], Model], type[Any]]] = {
    "autoregressive": (Autoregressive, AutoregressiveConfig),
    "pcfg": (PCFG, PCFGConfig),
    "dag": (DirectedAcyclic, DAGConfig),
    "ctc": (Collapsing, CTCConfig),
    "vanilla": (Vanilla, VanillaConfig),
}

__all__ = [
    "MODELS",
    "PCFG",
    "SPECIAL_TOKENS",
    "Autoregressive",
    "AutoregressiveConfig",
    "Batch",
    "CTCConfig",
    "Collapsing",
    "DAGConfig",
    "DirectedAcyclic",
    "Loss",
    "Model",
    "PCFGConfig",
    "ParallelModel",
    "Vanilla",
    "VanillaConfig",
]
