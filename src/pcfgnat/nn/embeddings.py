"""Tokens and positions as vectors, and vectors as scores of tokens."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.dropout import Dropout

FEW_ROWS = 8


class TokenEmbedding(nn.Module):
    """One table for tokens that go in and for scores of tokens that come out (Press & Wolf 2017).

    What goes in is scaled by √D, so that numbers about 1 enter the network while scores begin about 1 too.
    """

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.scale = math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, ids: Int[Tensor, "*any"]) -> Float[Tensor, "*any D"]:
        """Embed tokens."""
        return functional.embedding(ids, self.weight) * self.scale

    def scores(self, states: Float[Tensor, "R D"]) -> Float[Tensor, "R V"]:
        """Return the score of every token, not normalised."""
        if 1 < states.shape[0] <= FEW_ROWS and not torch.is_grad_enabled():
            return (self.weight @ states.t()).t()  # up to twice as fast on a CPU
        return functional.linear(states, self.weight)


class PositionEmbedding(nn.Module):
    """A learned vector for each position, at first the sines and cosines of Vaswani et al. (2017)."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.limit = positions
        self.weight = nn.Parameter(sinusoids(positions, width))

    def forward(self, length: int, start: int = 0) -> Float[Tensor, "length D"]:
        """Return the vectors of `length` positions from `start` on."""
        if (end := start + length) > self.limit:
            raise ValueError(f"a sentence must have at most {self.limit} positions, got {end}")
        return self.weight[start:end]


class Embeddings(nn.Module):
    """All that an encoder–decoder embeds: tokens in one shared table or two, positions of either side.

    `target_positions` is for decoders that are longer than sentences; without it, `config.max_positions`.
    """

    def __init__(
        self, vocabulary: int, config: TransformerConfig, target_positions: int | None = None
    ) -> None:
        super().__init__()
        self.tokens = TokenEmbedding(vocabulary, config.width)
        self.source_tokens = None if config.share_embeddings else TokenEmbedding(vocabulary, config.width)
        self.source_positions = PositionEmbedding(config.max_positions, config.width)
        self.target_positions = PositionEmbedding(target_positions or config.max_positions, config.width)
        self.dropout = Dropout(config.dropout)

    def source(self, ids: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """Embed what the encoder reads; ids where the mask is false are not looked at."""
        tokens = (self.source_tokens or self.tokens)(ids.masked_fill(~mask, 0))
        embedded: Tensor = self.dropout(tokens + self.source_positions(ids.shape[1]))
        return embedded

    def target(self, ids: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """Embed what the decoder reads; ids where the mask is false are not looked at."""
        tokens = self.tokens(ids.masked_fill(~mask, 0))
        embedded: Tensor = self.dropout(tokens + self.target_positions(ids.shape[1]))
        return embedded

    def target_step(self, ids: Int[Tensor, "B Q"], position: int) -> Float[Tensor, "B Q D"]:
        """Embed tokens that all stand at one position."""
        embedded: Tensor = self.dropout(self.tokens(ids) + self.target_positions(1, position))
        return embedded

    def target_at(self, ids: Int[Tensor, "B Q"], positions: Int[Tensor, "B Q"]) -> Float[Tensor, "B Q D"]:
        """Embed tokens that stand at any positions."""
        embedded: Tensor = self.dropout(self.tokens(ids) + self.target_positions.weight[positions])
        return embedded


def sinusoids(
    positions: int, width: int, device: torch.device | None = None
) -> Float[Tensor, "positions width"]:
    """Sines in even columns and cosines in odd ones, of wavelengths from 2π to 10000 · 2π."""
    frequency = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10000.0) / width))
    angle = torch.arange(positions, device=device).unsqueeze(1) * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]
