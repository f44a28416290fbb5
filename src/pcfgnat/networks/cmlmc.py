"""CMLMC (Huang et al. 2022): slots with concatenated positions and a second, causal view of the canvas."""

from dataclasses import dataclass

from pcfgnat.networks.canvas import CanvasConfig
from pcfgnat.networks.predicted import PredictedLengthNetwork
from pcfgnat.nn import MappedEmbeddings, TwoViewDecoder, initialise


@dataclass(frozen=True)
class CMLMCConfig(CanvasConfig):
    """Architecture of CMLMC: nothing but what all one-pass networks share."""


class CMLMCNetwork(PredictedLengthNetwork):
    """p(Y|X) = p(n|X) Π p(y_i | X, n); what it has beyond a network of slots begins as nothing."""

    default_strategy = "update-all"

    def __init__(self, config: CMLMCConfig, vocabulary: int) -> None:
        transformer = config.transformer
        decoder = TwoViewDecoder(transformer)
        super().__init__(config, vocabulary, decoder)
        longest = self.embeddings.target_positions.limit
        embeddings = MappedEmbeddings(vocabulary, transformer, longest)
        self.embeddings = embeddings
        initialise(self, transformer)
        embeddings.begin_as_sum()
        decoder.begin_with_one_view()
