"""Slots of a predicted length (Gu et al. 2018): every node emits one token, independently of the others."""

from dataclasses import dataclass

from pcfgnat.networks.canvas import CanvasConfig
from pcfgnat.networks.predicted import PredictedLengthNetwork
from pcfgnat.nn import initialise


@dataclass(frozen=True)
class SlotsConfig(CanvasConfig):
    """Architecture of slots: nothing but what all one-pass networks share."""


class SlotsNetwork(PredictedLengthNetwork):
    """A decoder without causal mask over the canvas."""

    default_strategy = "greedy"

    def __init__(self, config: SlotsConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        initialise(self, config.transformer)
