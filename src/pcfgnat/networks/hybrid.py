"""One encoder and two shallow heads: a lattice that drafts, and a decoder that reads drafts or writes."""

from dataclasses import dataclass, replace
from typing import Literal

from pcfgnat.grammar.canvas import Geometry
from pcfgnat.networks.autoregressive import AutoregressiveConfig, AutoregressiveNetwork
from pcfgnat.networks.base import Network
from pcfgnat.networks.dag import DAGConfig, DAGNetwork
from pcfgnat.networks.pcfg import PCFGConfig, PCFGNetwork

MOST_LAYERS = 64


@dataclass(frozen=True)
class HybridConfig(PCFGConfig):
    """The encoder, the lattice and its decoder as in a `pcfg` or `dag` network, and the layers that read.

    drafter:       what the canvas is: a right-heavy grammar, or a graph, whose prefix_depth must be 0
    layers_reader: decoder layers of the autoregressive head; those of the drafter are `layers_decoder`
    """

    drafter: Literal["pcfg", "dag"] = "pcfg"
    layers_reader: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.drafter == "dag" and self.prefix_depth:
            raise ValueError(f"prefix_depth must be 0 if the drafter is dag, got {self.prefix_depth}")
        if not 1 <= self.layers_reader <= MOST_LAYERS:
            raise ValueError(f"layers_reader must be in 1 … {MOST_LAYERS}, got {self.layers_reader}")

    @property
    def geometry(self) -> Geometry:
        """How the canvas follows from the source."""
        return Geometry("graph", self.upsampling) if self.drafter == "dag" else super().geometry


class HybridNetwork(Network):
    """Two distributions over translations of one encoded source.

    drafter: fills a canvas; it has the encoder and the embeddings
    reader:  writes or reads token by token; its own are a decoder and the positions of sentences
    """

    default_strategy = "verify"

    def __init__(self, config: HybridConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        drafter = _drafter(config, vocabulary)
        size = replace(config.transformer, layers_decoder=config.layers_reader)
        reader = AutoregressiveNetwork(AutoregressiveConfig(size), vocabulary)
        reader.encoder = drafter.encoder
        reader.embeddings.tokens = drafter.embeddings.tokens
        reader.embeddings.source_tokens = drafter.embeddings.source_tokens
        reader.embeddings.source_positions = drafter.embeddings.source_positions
        self.embeddings, self.encoder = drafter.embeddings, drafter.encoder  # first: these name the weights
        self.drafter, self.reader = drafter, reader


def _drafter(config: HybridConfig, vocabulary: int) -> PCFGNetwork | DAGNetwork:
    shared = config.transformer, config.copy_input, config.upsampling
    if config.drafter == "dag":
        return DAGNetwork(DAGConfig(*shared, transitions=config.rules), vocabulary)
    return PCFGNetwork(PCFGConfig(*shared, config.prefix_depth, config.rules), vocabulary)
