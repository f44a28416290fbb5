"""Size and kind of a Transformer."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TransformerConfig:
    """Encoder and decoder alike; the defaults are the paper's size.

    layers_encoder:    encoder layers
    layers_decoder:    decoder layers
    width:             size of a state; a multiple of heads
    ffn:               size of the feed-forward layers inside
    heads:             attention heads
    dropout:           probability to drop a unit of a sub-layer's output
    attention_dropout: probability to drop an attention weight
    activation:        of the feed-forward layers
    pre_norm:          normalise the input of a sub-layer, which trains more easily, instead of its output
    max_positions:     longest input, in tokens, that learned positions exist for
    share_embeddings:  one table for source, target and output; otherwise the source has a separate one
    bert_init:         draw all weights from N(0, 0.02²), as BERT and the released DA-Transformer do
    """

    layers_encoder: int = 6
    layers_decoder: int = 6
    width: int = 512
    ffn: int = 2048
    heads: int = 8
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: Literal["relu", "gelu"] = "gelu"
    pre_norm: bool = True
    max_positions: int = 1024
    share_embeddings: bool = True
    bert_init: bool = False

    def __post_init__(self) -> None:
        for name in ("layers_encoder", "layers_decoder", "width", "ffn", "heads", "max_positions"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("dropout", "attention_dropout"):
            if not 0 <= (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {value}")
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads = {self.heads}, got {self.width}")
