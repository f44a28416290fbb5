"""First values of weights."""

from torch import nn

from pcfgnat.nn.attention import CrossAttention, SelfAttention
from pcfgnat.nn.config import TransformerConfig
from pcfgnat.nn.disentangled import DisentangledDecoder
from pcfgnat.nn.embeddings import PositionEmbedding, TokenEmbedding
from pcfgnat.nn.transformer import Decoder, Encoder, FeedForward

BERT_DEVIATION = 0.02


def initialise(network: nn.Module, config: TransformerConfig) -> None:
    """Draw the weights of all linear maps by Xavier's rule or, with `bert_init`, all weights like BERT's.

    Xavier's rule takes queries, keys and values for maps of their own, though they are stored as one. With
    pre-norm, what a sub-layer adds to the sum is divided by √(number of sub-layers), as in GPT-2.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in network.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            for block in module.project.weight.detach().view(-1, config.width, config.width):
                nn.init.xavier_uniform_(block)
        if config.pre_norm and isinstance(module, Encoder | Decoder | DisentangledDecoder):
            _shrink_outputs(module)
    if config.bert_init:
        for module in network.modules():
            if isinstance(module, nn.Linear | TokenEmbedding | PositionEmbedding):
                nn.init.normal_(module.weight, std=BERT_DEVIATION)


def _shrink_outputs(stack: Encoder | Decoder | DisentangledDecoder) -> None:
    kinds = SelfAttention | CrossAttention | FeedForward
    sub_layers = [module for module in stack.modules() if isinstance(module, kinds)]
    for sub_layer in sub_layers:
        sub_layer.output.weight.data /= len(sub_layers) ** 0.5
