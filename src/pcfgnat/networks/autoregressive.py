"""The Transformer that writes token by token: teacher and yardstick of the one-pass networks."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks.base import Batch, Network
from pcfgnat.nn import Decoder, Embeddings, Encoder, TransformerConfig, initialise
from pcfgnat.structures import Padded
from pcfgnat.structures.profiling import OUTPUT_LAYER, profiled


@dataclass(frozen=True)
class AutoregressiveConfig:
    """Any depths: 6-6 is the paper's, 12-1 the fast one of Kasai et al. (2021).

    transformer: size of encoder and decoder
    """

    transformer: TransformerConfig = field(default_factory=TransformerConfig)


@dataclass(frozen=True)
class Predictions:
    """What the decoder predicts of each target token but bos, T in all, when it has read all those before.

    read: the tokens that the decoder read, sentence by sentence; T of them belong to a sentence
    """

    read: Padded
    label: Int[Tensor, "T"]
    log_probs: Float[Tensor, "T V"]

    @property
    def nll(self) -> Float[Tensor, "T"]:
        """Return the negative log-probability of each label."""
        return -self.log_probs.gather(1, self.label.unsqueeze(1)).squeeze(1)


class AutoregressiveNetwork(Network):
    """p(Y|X) = Π p(y_i | y_1 … y_{i-1}, X), by an encoder and a causal decoder."""

    default_strategy = "beam"

    def __init__(self, config: AutoregressiveConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(vocabulary, config.transformer)
        self.encoder = Encoder(config.transformer)
        self.decoder = Decoder(config.transformer, causal=True)
        initialise(self, config.transformer)

    def predictions(self, batch: Batch) -> Predictions:
        """Read a batch and its targets at once."""
        target = self.checked(batch.target)
        read = Padded(target.ids[:, :-1], (target.lengths - 1).clamp(min=0))
        mask = read.mask
        memory = self.encode(batch.source)
        states = self.decoder(self.embeddings.target(read.ids, mask), mask, memory.states, memory.mask)
        log_probs = self.token_log_probs(states[mask])
        return Predictions(read, target.ids[:, 1:][mask], log_probs)

    def log_prob(self, batch: Batch) -> Float[Tensor, "B"]:
        """log P(Y|X) of each target, given its bos; 0 for targets of fewer than 2 tokens."""
        found = self.predictions(batch)
        mask = found.read.mask
        return -found.nll.new_zeros(mask.shape).masked_scatter(mask, found.nll).sum(1)

    @profiled(OUTPUT_LAYER)
    def token_log_probs(self, states: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
        """Return log-probabilities of the next token, in float32 at least."""
        scores = self.embeddings.tokens.scores(states)
        return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
