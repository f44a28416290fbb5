"""Networks: attention, Transformer encoder and decoder, embeddings, and decoding token by token."""

from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.decoding import BeamSearch, Ends, Finished, Sampling, Stepper, Strategy, decode
from pcfgnat.nn.dropout import Dropout
from pcfgnat.nn.embeddings import Embeddings, PositionEmbedding, TokenEmbedding
from pcfgnat.nn.emission import best_types, token_log_probs, token_log_probs_within
from pcfgnat.nn.initialisation import initialise
from pcfgnat.nn.links import LinkConfig, Links
from pcfgnat.nn.transformer import Decoder, DecoderCache, Encoder

__all__ = [
    "BeamSearch",
    "Decoder",
    "DecoderCache",
    "Dropout",
    "Embeddings",
    "Encoder",
    "Ends",
    "Finished",
    "LinkConfig",
    "Links",
    "PositionEmbedding",
    "Sampling",
    "Stepper",
    "Strategy",
    "TokenEmbedding",
    "TransformerConfig",
    "best_types",
    "decode",
    "initialise",
    "token_log_probs",
    "token_log_probs_within",
]
