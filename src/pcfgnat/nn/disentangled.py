"""A decoder whose positions each see a set of tokens of their own (Kasai et al. 2020)."""

from collections.abc import Iterable
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcfgnat.nn.attention import CrossAttention, bias_of, key_bias
from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.transformer import FeedForward, Residual, last_norm


class DisentangledLayer(nn.Module):
    """Attention to the tokens that a position may see, attention to the encoder's states, feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.token_attention = CrossAttention(config)
        self.around_tokens = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.around_cross = Residual(config)
        self.feed_forward = FeedForward(config)
        self.around_feed = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B M D"],
        tokens: Float[Tensor, "B M D"],
        bias: Float[Tensor, "B 1 M M"],
        memory: Float[Tensor, "B N D"],
        memory_bias: Float[Tensor, "B 1 1 N"] | None,
    ) -> Float[Tensor, "B M D"]:
        """Return the states of the next layer; `tokens` are embedded, and the same for every layer."""
        seen = self.token_attention.keys_values(self.around_tokens.enter(tokens))
        x = self.around_tokens.leave(x, self.token_attention(self.around_tokens.enter(x), seen, bias))
        source = self.cross_attention.keys_values(memory)
        x = self.around_cross.leave(x, self.cross_attention(self.around_cross.enter(x), source, memory_bias))
        return self.around_feed.leave(x, self.feed_forward(self.around_feed.enter(x)))


class DisentangledDecoder(nn.Module):
    """A stack of such layers.

    Keys and values come from embedded tokens in every layer, never from states, and a state is only ever
    mixed with what its own position sees: at any depth it knows nothing of the other tokens.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DisentangledLayer(config) for _ in range(config.layers_decoder))
        self.norm = last_norm(config)

    def forward(
        self,
        queries: Float[Tensor, "B M D"],
        tokens: Float[Tensor, "B M D"],
        visible: Bool[Tensor, "B M M"],
        memory: Float[Tensor, "B N D"],
        memory_mask: Bool[Tensor, "B N"] | None,
    ) -> Float[Tensor, "B M D"]:
        """Decode all positions at once; `visible[b, i, j]` is whether position i sees token j.

        Every position must see something. Queries must not depend on tokens.
        """
        bias = bias_of(visible, queries).unsqueeze(1)
        memory_bias = key_bias(memory_mask, memory)
        states = queries
        for layer in cast(Iterable[DisentangledLayer], self.layers):
            states = layer(states, tokens, bias, memory, memory_bias)
        normed: Tensor = self.norm(states)
        return normed
