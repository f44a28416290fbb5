"""Networks by name: a class, built from its config and the vocabulary's size, and that config."""

from collections.abc import Callable
from typing import Any

from pcfgnat.networks.autoregressive import AutoregressiveConfig, AutoregressiveNetwork
from pcfgnat.networks.base import Batch, Memory, Network, inference
from pcfgnat.networks.canvas import Canvas, CanvasConfig, CanvasIds, CanvasNetwork
from pcfgnat.networks.cmlmc import CMLMCConfig, CMLMCNetwork
from pcfgnat.networks.ctc import CTCConfig, CTCNetwork, ImputerNetwork
from pcfgnat.networks.dag import DAGConfig, DAGNetwork
from pcfgnat.networks.disco import DiscoConfig, DiscoNetwork
from pcfgnat.networks.flowseq import FlowSeqConfig, FlowSeqNetwork
from pcfgnat.networks.hybrid import HybridConfig, HybridNetwork
from pcfgnat.networks.pcfg import PCFGConfig, PCFGNetwork
from pcfgnat.networks.predicted import PredictedLengthNetwork
from pcfgnat.networks.slots import SlotsConfig, SlotsNetwork

NETWORKS: dict[str, tuple[Callable[[Any, int], Network], type[Any]]] = {
    "autoregressive": (AutoregressiveNetwork, AutoregressiveConfig),
    "pcfg": (PCFGNetwork, PCFGConfig),
    "dag": (DAGNetwork, DAGConfig),
    "ctc": (CTCNetwork, CTCConfig),
    "slots": (SlotsNetwork, SlotsConfig),
    "cmlmc": (CMLMCNetwork, CMLMCConfig),
    "imputer": (ImputerNetwork, CTCConfig),
    "disco": (DiscoNetwork, DiscoConfig),
    "flowseq": (FlowSeqNetwork, FlowSeqConfig),
    "hybrid": (HybridNetwork, HybridConfig),
}

__all__ = [
    "NETWORKS",
    "AutoregressiveConfig",
    "AutoregressiveNetwork",
    "Batch",
    "CMLMCConfig",
    "CMLMCNetwork",
    "CTCConfig",
    "CTCNetwork",
    "Canvas",
    "CanvasConfig",
    "CanvasIds",
    "CanvasNetwork",
    "DAGConfig",
    "DAGNetwork",
    "DiscoConfig",
    "DiscoNetwork",
    "FlowSeqConfig",
    "FlowSeqNetwork",
    "HybridConfig",
    "HybridNetwork",
    "ImputerNetwork",
    "Memory",
    "Network",
    "PCFGConfig",
    "PCFGNetwork",
    "PredictedLengthNetwork",
    "SlotsConfig",
    "SlotsNetwork",
    "inference",
]
