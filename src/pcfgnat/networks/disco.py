"""DisCo (Kasai et al. 2020): every node predicts its token from a set of other tokens of its own."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from pcfgnat.grammar.canvas import seen_nodes
from pcfgnat.networks.base import Memory
from pcfgnat.networks.canvas import Canvas, CanvasConfig, CanvasIds
from pcfgnat.networks.predicted import PredictedLengthNetwork
from pcfgnat.nn import DisentangledDecoder, initialise
from pcfgnat.structures.profiling import DECODER, profiled
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class DiscoConfig(CanvasConfig):
    """Architecture of DisCo: nothing but what all one-pass networks share."""


class DiscoNetwork(PredictedLengthNetwork):
    """p(y_i | X, n, tokens that node i sees); no node sees its own token, all see bos and eos."""

    default_strategy = "easy-first"

    def __init__(self, config: DiscoConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary, DisentangledDecoder(config.transformer))
        initialise(self, config.transformer)

    def fill(self, memory: Memory, canvas: CanvasIds) -> Canvas:
        """Run the decoder; every node sees all tokens on the canvas that are not blank."""
        shown = (canvas.ids != SPECIAL_TOKENS.unk).unsqueeze(1)
        return self.fill_visible(memory, canvas, shown.expand(-1, canvas.ids.shape[1], -1))

    @profiled(DECODER)
    def fill_visible(self, memory: Memory, canvas: CanvasIds, visible: Bool[Tensor, "B m m"]) -> Canvas:
        """Run the decoder; `visible[b, i, j]` is whether node i sees the token at node j.

        Whatever is asked for, a node never sees itself or padding, and always bos and eos.
        """
        mask, nodes = canvas.mask, canvas.ids.shape[1]
        node = torch.arange(nodes, device=canvas.ids.device)
        seen = seen_nodes(visible, node, canvas.lengths)
        embeddings = self.embeddings
        queries = embeddings.dropout(embeddings.target_positions(nodes).expand(len(mask), -1, -1))
        if self.copy is not None:
            queries = queries + self.copied(memory, canvas)
        tokens = embeddings.target(canvas.ids, mask)
        states = self.decoder(queries, tokens, seen, memory.states, memory.mask)
        return Canvas(states, mask, canvas.lengths, memory.lengths)
