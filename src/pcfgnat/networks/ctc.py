"""CTC (Libovický & Helcl 2018), Imputer (Saharia et al. 2020): slots emit tokens or blanks, and collapse."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from pcfgnat.grammar.canvas import Framing, Geometry
from pcfgnat.networks.canvas import Canvas, UpsampledConfig, UpsampledNetwork
from pcfgnat.nn import initialise
from pcfgnat.structures import CTC
from pcfgnat.text.special import SPECIAL_TOKENS

BLANK = SPECIAL_TOKENS.pad  # no sentence contains it


@dataclass(frozen=True)
class CTCConfig(UpsampledConfig):
    """The canvas's size.

    upsampling: λ, slots per source token
    """

    upsampling: int = 2

    @property
    def geometry(self) -> Geometry:
        """How the canvas follows from the source."""
        return Geometry("slots", self.upsampling)


class CTCNetwork(UpsampledNetwork):
    """p(Y|X) = Σ over what the slots may emit such that Y is left; bos and eos are not emitted."""

    framing = Framing(ends=False, blank=BLANK)
    default_strategy = "greedy"

    def __init__(self, config: CTCConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, config.geometry.longest_canvas(config.transformer.max_positions))
        self.config = config
        initialise(self, config.transformer)

    def distribution(self, canvas: Canvas, emit: Float[Tensor, "B m K"]) -> CTC:
        """Return the alignments of each sentence; the blank comes first in any vocabulary."""
        return CTC(emit, canvas.lengths, BLANK)


class ImputerNetwork(CTCNetwork):
    """The same, given what some slots emit: a slot of the canvas holds a token, the blank, or is open.

    Its weights are those of CTC, whose canvas is always open.
    """

    default_strategy = "imputation"
