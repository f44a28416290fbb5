"""Networks: attention, Transformer encoder and decoder, embeddings."""

from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.correcting import MappedEmbeddings, TwoViewDecoder
from pcfgnat.nn.disentangled import DisentangledDecoder
from pcfgnat.nn.dropout import Dropout
from pcfgnat.nn.embeddings import Embeddings, PositionEmbedding, TokenEmbedding
from pcfgnat.nn.emission import best_types, token_log_probs, token_log_probs_within
from pcfgnat.nn.initialisation import initialise
from pcfgnat.nn.length import LengthHead
from pcfgnat.nn.links import LinkConfig, Links
from pcfgnat.nn.transformer import Decoder, DecoderCache, Encoder

__all__ = [
    "Decoder",
    "DecoderCache",
    "DisentangledDecoder",
    "Dropout",
    "Embeddings",
    "Encoder",
    "LengthHead",
    "LinkConfig",
    "Links",
    "MappedEmbeddings",
    "PositionEmbedding",
    "TokenEmbedding",
    "TransformerConfig",
    "TwoViewDecoder",
    "best_types",
    "initialise",
    "token_log_probs",
    "token_log_probs_within",
]
