"""Slots of a predicted length (Gu et al. 2018): every node emits one token, independently of the others."""

from dataclasses import dataclass

from pcfgnat.grammar.canvas import Framing
from pcfgnat.networks.canvas import CanvasConfig
from pcfgnat.networks.predicted import PredictedLengthNetwork
from pcfgnat.nn import initialise
from pcfgnat.text.special import SPECIAL_TOKENS

BLANK = SPECIAL_TOKENS.pad  # no sentence contains it


@dataclass(frozen=True)
class SlotsConfig(CanvasConfig):
    """Architecture of slots.

    blank: slots may emit a blank, which translations leave out
    """

    blank: bool = False


class SlotsNetwork(PredictedLengthNetwork):
    """A decoder without causal mask over the canvas."""

    default_strategy = "greedy"

    def __init__(self, config: SlotsConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        self.config = config
        self.framing = Framing(blank=BLANK if config.blank else None)
        initialise(self, config.transformer)
