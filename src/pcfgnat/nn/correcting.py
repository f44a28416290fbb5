"""What CMLMC (Huang et al. 2022) adds to a Transformer, to tell masked positions apart.

Both begin as nothing: positions are added to tokens, and the causal attention writes zeros.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pcfgnat.nn.attention import KeyValueCache, SelfAttention, causal_bias
from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.embeddings import Embeddings
from pcfgnat.nn.transformer import Decoder, DecoderLayer, Residual


class MappedEmbeddings(Embeddings):
    """Tokens and positions side by side, mapped to one vector, by a map for either side."""

    def __init__(self, vocabulary: int, config: TransformerConfig, target_positions: int) -> None:
        super().__init__(vocabulary, config, target_positions)
        self.source_map = nn.Linear(2 * config.width, config.width)
        self.target_map = nn.Linear(2 * config.width, config.width)

    def begin_as_sum(self) -> None:
        """Let both maps add position and token."""
        for linear in (self.source_map, self.target_map):
            one = torch.eye(linear.out_features)
            with torch.no_grad():
                linear.weight.copy_(torch.cat([one, one], 1))
                linear.bias.zero_()

    def source(self, ids: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """Embed what the encoder reads; ids where the mask is false are not looked at."""
        tokens = (self.source_tokens or self.tokens)(ids.masked_fill(~mask, 0))
        return self._mapped(self.source_map, tokens, self.source_positions(ids.shape[1]))

    def target(self, ids: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """Embed what the decoder reads; ids where the mask is false are not looked at."""
        tokens = self.tokens(ids.masked_fill(~mask, 0))
        return self._mapped(self.target_map, tokens, self.target_positions(ids.shape[1]))

    def target_step(self, ids: Int[Tensor, "B Q"], position: int) -> Float[Tensor, "B Q D"]:
        """Embed tokens that all stand at one position."""
        return self._mapped(self.target_map, self.tokens(ids), self.target_positions(1, position))

    def _mapped(
        self, linear: nn.Linear, tokens: Float[Tensor, "B N D"], positions: Float[Tensor, "#N D"]
    ) -> Float[Tensor, "B N D"]:
        embedded: Tensor = self.dropout(linear(torch.cat([tokens, positions.expand_as(tokens)], 2)))
        return embedded


class TwoViewLayer(DecoderLayer):
    """Attention to all positions, to earlier ones once more, to the encoder's states, and feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.causal_attention = SelfAttention(config)
        self.around_causal = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        bias: Float[Tensor, "#B 1 #Q S"] | None,
        memory: Float[Tensor, "B N 2 H E"],
        memory_bias: Float[Tensor, "B 1 1 N"] | None,
        past: KeyValueCache | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Return the states of the next layer; `memory` holds this layer's keys and values of the encoder."""
        x = self.around_self.leave(x, self.self_attention(self.around_self.enter(x), bias, past))
        before = causal_bias(x.shape[1], x)
        x = self.around_causal.leave(x, self.causal_attention(self.around_causal.enter(x), before))
        x = self.around_cross.leave(x, self.cross_attention(self.around_cross.enter(x), memory, memory_bias))
        return self.around_feed.leave(x, self.feed_forward(self.around_feed.enter(x)))


class TwoViewDecoder(Decoder):
    """A stack of such layers, all positions at once."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, causal=False)
        self.layers = nn.ModuleList(TwoViewLayer(config) for _ in range(config.layers_decoder))

    def begin_with_one_view(self) -> None:
        """Let the causal attentions write zeros."""
        for module in self.modules():
            if isinstance(module, TwoViewLayer):
                nn.init.zeros_(module.causal_attention.output.weight)
                nn.init.zeros_(module.causal_attention.output.bias)
