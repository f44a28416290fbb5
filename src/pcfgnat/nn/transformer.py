"""Transformer encoder and decoder (Vaswani et al. 2017), on embedded input."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from pcfgnat.nn.attention import CrossAttention, KeyValueCache, SelfAttention, bias_of, causal_bias, key_bias
from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}


class Residual(nn.Module):
    """The way around a sub-layer: the norm stands before it (pre-norm) or after the sum (post-norm)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.pre_norm = config.pre_norm
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Return what the sub-layer shall read."""
        read: Tensor = self.norm(x) if self.pre_norm else x
        return read

    def leave(self, x: Float[Tensor, "B N D"], update: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Add what the sub-layer wrote."""
        total: Tensor = x + self.dropout(update)
        return total if self.pre_norm else self.norm(total)


class FeedForward(nn.Module):
    """Two linear maps with an activation between, at every position alike."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.widen = nn.Linear(config.width, config.ffn)
        self.output = nn.Linear(config.ffn, config.width)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        """Map every position."""
        update: Tensor = self.output(self.activation(self.widen(x)))
        return update


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.around_self = Residual(config)
        self.feed_forward = FeedForward(config)
        self.around_feed = Residual(config)

    def forward(
        self, x: Float[Tensor, "B N D"], bias: Float[Tensor, "B 1 1 N"] | None
    ) -> Float[Tensor, "B N D"]:
        """Return the states of the next layer."""
        x = self.around_self.leave(x, self.self_attention(self.around_self.enter(x), bias))
        return self.around_feed.leave(x, self.feed_forward(self.around_feed.enter(x)))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the encoder's states, and feed-forward."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.self_attention = SelfAttention(config)
        self.around_self = Residual(config)
        self.cross_attention = CrossAttention(config)
        self.around_cross = Residual(config)
        self.feed_forward = FeedForward(config)
        self.around_feed = Residual(config)

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
        x = self.around_cross.leave(x, self.cross_attention(self.around_cross.enter(x), memory, memory_bias))
        return self.around_feed.leave(x, self.feed_forward(self.around_feed.enter(x)))


class Encoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers_encoder))
        self.norm = last_norm(config)

    def forward(
        self, inputs: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"] | None
    ) -> Float[Tensor, "B N D"]:
        """Encode; positions where the mask is false influence no other."""
        bias = key_bias(mask, inputs)
        states = inputs
        for layer in self.layers:
            states = layer(states, bias)
        normed: Tensor = self.norm(states)
        return normed


@dataclass
class DecoderCache:
    """What a decoder remembers from step to step: keys and values of all it has read and of the encoder."""

    past: list[KeyValueCache]
    memory: list[Float[Tensor, "B N 2 H E"]]
    memory_bias: Float[Tensor, "B 1 1 N"] | None

    def rewind(self, lengths: Int[Tensor, "B"]) -> None:
        """Forget all but the first `lengths[b]` inputs of each sentence."""
        for past in self.past:
            past.rewind(lengths)

    def select(self, rows: Int[Tensor, "R"]) -> None:
        """Keep these sentences only."""
        for past in self.past:
            past.select(rows)
        self.memory = [memory.index_select(0, rows) for memory in self.memory]
        if self.memory_bias is not None:
            self.memory_bias = self.memory_bias.index_select(0, rows)


class Decoder(nn.Module):
    """A stack of decoder layers; with `causal`, no position sees a later one."""

    def __init__(self, config: TransformerConfig, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers_decoder))
        self.norm = last_norm(config)

    def forward(
        self,
        inputs: Float[Tensor, "B M D"],
        mask: Bool[Tensor, "B M"] | None,
        memory: Float[Tensor, "B N D"],
        memory_mask: Bool[Tensor, "B N"] | None,
    ) -> Float[Tensor, "B M D"]:
        """Decode all positions at once; those where a mask is false influence no other.

        A causal decoder needs no mask: padding stands at the end, where no position of a sentence looks.
        """
        bias = causal_bias(inputs.shape[1], inputs) if self.causal else key_bias(mask, inputs)
        memory_bias = key_bias(memory_mask, memory)
        states = inputs
        for layer in self._stack():
            keys_values = layer.cross_attention.keys_values(memory)
            states = layer(states, bias, keys_values, memory_bias)
        normed: Tensor = self.norm(states)
        return normed

    def start(self, memory: Float[Tensor, "B N D"], memory_mask: Bool[Tensor, "B N"] | None) -> DecoderCache:
        """Prepare for decoding step by step; keys and values of the encoder's states are computed here."""
        return DecoderCache(
            [KeyValueCache() for _ in self.layers],
            [layer.cross_attention.keys_values(memory) for layer in self._stack()],
            key_bias(memory_mask, memory),
        )

    def step(
        self,
        inputs: Float[Tensor, "B Q D"],
        visible: Bool[Tensor, "B Q S"] | None,
        cache: DecoderCache,
    ) -> Float[Tensor, "B Q D"]:
        """Decode Q more inputs for each sentence, which join the cache.

        `visible` says which of all S inputs so far, the new ones last, each new one sees; None: all. The Q
        inputs may be hypotheses that stand side by side: then each sees its own past in the common cache,
        and nothing is ever copied when hypotheses branch or die.
        """
        bias = None if visible is None else bias_of(visible, inputs).unsqueeze(1)
        states = inputs
        for layer, memory, past in zip(self.layers, cache.memory, cache.past, strict=True):
            states = layer(states, bias, memory, cache.memory_bias, past)
        normed: Tensor = self.norm(states)
        return normed

    def _stack(self) -> Iterable[DecoderLayer]:
        return cast(Iterable[DecoderLayer], self.layers)


def last_norm(config: TransformerConfig) -> nn.Module:
    """Pre-norm layers leave their sum as it is, so that it needs a norm at the end."""
    return nn.LayerNorm(config.width) if config.pre_norm else nn.Identity()
