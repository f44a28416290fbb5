"""FlowSeq (Ma et al. 2019): all tokens follow from latents, whose prior is a normalising flow."""

import math
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcfgnat.grammar.canvas import LENGTH_CLASSES, SAME_LENGTH
from pcfgnat.networks.base import Memory, Network
from pcfgnat.nn import Decoder, Embeddings, Encoder, LengthHead, TransformerConfig, initialise, waiting
from pcfgnat.nn.attention import CrossAttention, key_bias
from pcfgnat.nn.flow import FlowConfig, FlowPrior, Given
from pcfgnat.structures import Padded
from pcfgnat.structures.profiling import DECODER, OUTPUT_LAYER, profiled
from pcfgnat.text.special import SPECIAL_TOKENS


@dataclass(frozen=True)
class FlowSeqConfig:
    """Architecture of FlowSeq.

    transformer:      size of encoder and decoder
    layers_posterior: layers that read the target in training
    word_dropout:     probability that the posterior does not read a token of the target in training
    flow:             size of the prior
    """

    transformer: TransformerConfig = field(default_factory=lambda: TransformerConfig(layers_decoder=4))
    layers_posterior: int = 4
    word_dropout: float = 0.2
    flow: FlowConfig = field(default_factory=FlowConfig)

    def __post_init__(self) -> None:
        if self.layers_posterior < 1:
            raise ValueError(f"layers_posterior must be at least 1, got {self.layers_posterior}")
        if not 0 <= self.word_dropout < 1:
            raise ValueError(f"word_dropout must be at least 0 and less than 1, got {self.word_dropout}")

    @property
    def longest(self) -> int:
        """The greatest number of positions: that of the longest target, a multiple of what flows need."""
        multiple = self.flow.multiple
        return (self.transformer.max_positions + SAME_LENGTH) // multiple * multiple


@dataclass(frozen=True)
class Posterior:
    """q(z|X,Y): independent normal distributions; `mean` and `log_deviation` are 0 at padded positions."""

    mean: Float[Tensor, "B n d"]
    log_deviation: Float[Tensor, "B n d"]

    def sample(self, noise: Float[Tensor, "B n d"]) -> Float[Tensor, "B n d"]:
        """Return latents from standard normal numbers."""
        return self.mean + self.log_deviation.exp() * noise

    def log_prob(self, noise: Float[Tensor, "B n d"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
        """Return log q of the latents that were made of this noise, which is 0 at padded positions too."""
        constant = lengths * (noise.shape[2] * math.log(2 * math.pi) / 2)
        return -(self.log_deviation + noise.square() / 2).flatten(1).sum(1) - constant


class FlowSeqNetwork(Network):
    """p(Y|X) = p(n|X) ∫ p(z|X) Π p(y_i | z, X) dz; the tokens are those after bos, filled up with eos."""

    default_strategy = "greedy"

    def __init__(self, config: FlowSeqConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        transformer = config.transformer
        width = transformer.width
        self.embeddings = Embeddings(vocabulary, transformer, config.longest)
        self.encoder = Encoder(transformer)
        self.posterior = Decoder(replace(transformer, layers_decoder=config.layers_posterior), causal=False)
        self.moments = nn.Linear(width, 2 * width)
        self.prior = FlowPrior(config.flow, transformer)
        self.reader = CrossAttention(transformer)
        self.decoder = Decoder(transformer, causal=False)
        self.length = LengthHead(width)
        initialise(self, transformer)
        self.prior.begin()

    def filled(self, target: Padded) -> Padded:
        """Return what the positions must emit: the tokens after bos, then eos up to a length that exists."""
        multiple = self.config.flow.multiple
        counted = (target.lengths - 1).clamp(min=1)
        lengths = (counted + multiple - 1) // multiple * multiple
        longest = int(counted.max()) if waiting.at_hand(counted) else max(target.ids.shape[1] - 1, 1)
        position = torch.arange(-(-longest // multiple) * multiple, device=lengths.device)
        ids = torch.full((len(lengths), len(position)), SPECIAL_TOKENS.eos, device=lengths.device)
        width = min(len(position), target.ids.shape[1] - 1)
        if width > 0:
            own = position[:width] < target.lengths.unsqueeze(1) - 1
            ids[:, :width] = torch.where(own, target.ids[:, 1 : width + 1], ids[:, :width])
        return Padded(ids, lengths)

    def given(self, memory: Memory, mask: Bool[Tensor, "B n"]) -> Given:
        """Return what the prior is told."""
        return Given(mask, memory.states, memory.mask)

    def inferred(self, memory: Memory, filled: Padded) -> Posterior:
        """Return q(z|X,Y)."""
        mask = filled.mask
        inputs = self.embeddings.target(filled.ids, mask)
        if self.training and self.config.word_dropout:
            kept = torch.rand(mask.shape, device=mask.device) >= self.config.word_dropout
            inputs = inputs * kept.unsqueeze(2)
        states = self.posterior(inputs, mask, memory.states, memory.mask)
        mean, log_deviation = self.moments(states).masked_fill(~mask.unsqueeze(2), 0.0).chunk(2, 2)
        return Posterior(mean, log_deviation)

    @profiled(DECODER)
    def written(
        self, memory: Memory, z: Float[Tensor, "B n d"], mask: Bool[Tensor, "B n"]
    ) -> Float[Tensor, "B n D"]:
        """Return the decoder's states: positions look at the latents, then at the source."""
        positions = self.embeddings.target_positions(z.shape[1]).expand(len(z), -1, -1)
        read = self.reader(positions, self.reader.keys_values(z), key_bias(mask, z))
        states: Tensor = self.decoder(positions + read, mask, memory.states, memory.mask)
        return states

    @profiled(OUTPUT_LAYER)
    def token_log_probs(self, states: Float[Tensor, "B n D"]) -> Float[Tensor, "B n V"]:
        """Return log-probabilities of the whole vocabulary, in float32 at least."""
        scores = self.embeddings.tokens.scores(states.flatten(0, 1))
        wide = torch.promote_types(scores.dtype, torch.float32)
        return scores.log_softmax(-1, dtype=wide).view(*states.shape[:2], -1)

    def length_scores(self, memory: Memory) -> Float[Tensor, "B L"]:
        """Return the score of each class of lengths, -inf for those that do not exist.

        The first and the last class stand for all that is further away.
        """
        scores = self.length.scores(memory.states, memory.mask, memory.lengths)
        label = torch.arange(LENGTH_CLASSES, device=scores.device)
        exists = (memory.lengths.unsqueeze(1) + label - SAME_LENGTH) % self.config.flow.multiple == 0
        return scores.masked_fill(~(exists | (label == 0) | (label == LENGTH_CLASSES - 1)), -torch.inf)

    def latents(
        self, memory: Memory, lengths: Int[Tensor, "B"], noise: Float[Tensor, "B n d"]
    ) -> tuple[Float[Tensor, "B n d"], Bool[Tensor, "B n"]]:
        """Return the latents that noise stands for, and which positions exist."""
        mask = torch.arange(noise.shape[1], device=lengths.device) < lengths.unsqueeze(1)
        given = self.given(memory, mask)
        return self.prior.inverse(self.prior.arranged(given.kept(noise)), given), mask

    def log_weights(
        self, memory: Memory, filled: Padded, noise: Float[Tensor, "B n d"]
    ) -> Float[Tensor, "B"]:
        """Return `log p(Y|z,X) + log p(z|X) - log q(z|X,Y)`, where z is what q makes of noise.

        The mean of the weights over noise is the probability of the tokens, given how many there are.
        """
        mask, posterior = filled.mask, self.inferred(memory, filled)
        eta = noise.masked_fill(~mask.unsqueeze(2), 0.0)
        z = posterior.sample(eta)
        log_probs = self.token_log_probs(self.written(memory, z, mask))
        own = log_probs.gather(2, filled.ids.unsqueeze(2)).squeeze(2)
        prior = self.prior.log_prob(z, self.given(memory, mask))
        likelihood = own.masked_fill(~mask, 0.0).sum(1)
        return likelihood + prior - posterior.log_prob(eta, filled.lengths)
