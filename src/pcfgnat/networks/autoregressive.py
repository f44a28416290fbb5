"""The Transformer that writes token by token: teacher and yardstick of the one-pass networks."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcfgnat.networks.base import Batch, Memory, Network
from pcfgnat.nn import Decoder, Embeddings, Encoder, TransformerConfig, initialise, waiting
from pcfgnat.structures import Padded
from pcfgnat.structures.profiling import OUTPUT_LAYER, profiled


@dataclass(frozen=True)
class AutoregressiveConfig:
    """Any depths: 6-6 is the paper's, 12-1 the fast one of Kasai et al. (2021).

    transformer: size of encoder and decoder
    """

    transformer: TransformerConfig = field(default_factory=TransformerConfig)


@dataclass(frozen=True)
class Read:
    """The decoder's states behind the tokens that it read, R of them as `waiting.picked` returns them.

    tokens: what it read, sentence by sentence
    label:  the token that follows each
    """

    tokens: Padded
    label: Int[Tensor, "R"]
    states: Float[Tensor, "R D"]


@dataclass(frozen=True)
class Predictions:
    """What the decoder predicts of each target token but bos when it has read all those before.

    read: the tokens that the decoder read, sentence by sentence; R are those that belong to a sentence, but
          on other devices than the CPU all of them, as `waiting.picked` returns them
    """

    read: Padded
    label: Int[Tensor, "R"]
    log_probs: Float[Tensor, "R V"]

    @property
    def nll(self) -> Float[Tensor, "R"]:
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
        found = self.read(self.encode(batch.source), batch.target)
        return Predictions(found.tokens, found.label, self.token_log_probs(found.states))

    def read(self, memory: Memory, target: Padded) -> Read:
        """Read the targets of an encoded batch at once."""
        target = self.checked(target)
        tokens = Padded(target.ids[:, :-1], (target.lengths - 1).clamp(min=0))
        mask = tokens.mask
        embedded = self.embeddings.target(tokens.ids, mask)
        states = self.decoder(embedded, mask, memory.states, memory.mask)
        label = waiting.picked(mask, target.ids[:, 1:].masked_fill(~mask, 0))
        return Read(tokens, label, waiting.picked(mask, states))

    def log_prob(self, batch: Batch) -> Float[Tensor, "B"]:
        """log P(Y|X) of each target, given its bos; 0 for targets of fewer than 2 tokens."""
        found = self.predictions(batch)
        return -waiting.placed(found.read.mask, found.nll).sum(1)

    @profiled(OUTPUT_LAYER)
    def token_log_probs(self, states: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
        """Return log-probabilities of the next token, in float32 at least."""
        scores = self.embeddings.tokens.scores(states)
        return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
