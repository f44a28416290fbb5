"""Translation models by name: a class, built from its config and the vocabulary's size, and that config."""

from collections.abc import Callable
from typing import Any

from pcfgnat.networks.autoregressive import Autoregressive, AutoregressiveConfig
from pcfgnat.networks.base import SPECIAL_TOKENS, Batch, Loss, Model
from pcfgnat.networks.ctc import Collapsing, CTCConfig
from pcfgnat.networks.dag import DAGConfig, DirectedAcyclic
from pcfgnat.networks.parallel import ParallelModel
from pcfgnat.networks.pcfg import PCFG, PCFGConfig
from pcfgnat.networks.vanilla import Vanilla, VanillaConfig

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
