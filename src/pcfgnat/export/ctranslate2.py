"""Autoregressive checkpoints as CTranslate2 models, which a fast engine made for them runs."""

import hashlib
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from torch import nn

from pcfgnat import __version__
from pcfgnat.checkpoints.checkpoint import TOKENIZER, Checkpoint
from pcfgnat.checkpoints.metadata import CheckpointError
from pcfgnat.networks import AutoregressiveNetwork, HybridNetwork
from pcfgnat.nn.attention import CrossAttention, SelfAttention
from pcfgnat.nn.transformer import DecoderLayer, EncoderLayer, FeedForward, Residual
from pcfgnat.storage.cache import cache_directory
from pcfgnat.storage.files import atomic_directory

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
    from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import (
        FeedForwardSpec,
        TransformerDecoderLayerSpec,
        TransformerEncoderLayerSpec,
    )

Quantization = Literal["float32", "float16", "bfloat16", "int16", "int8", "int8_float32"]


def convert(
    checkpoint: Path | str,
    output: Path | str,
    quantization: str = "float32",
    vmap: str | None = None,
) -> None:
    """Write an autoregressive checkpoint as a directory that `ctranslate2.Translator` loads.

    Of a hybrid network it is the head that reads. Its vocabulary is the tokenizer's pieces, and a source must
    have `<s>` and `</s>` around it as ours has.
    `vmap` is the text of a vocabulary map (source piece, tab, target pieces), which `use_vmap` then follows.
    The tokenizer is put beside the model, and `max_positions` into its `config.json`: CTranslate2 fails if it
    reads or writes more tokens, so that `max_input_length` and `max_decoding_length` must be no greater.
    """
    if quantization not in get_args(Quantization):
        choices = ", ".join(get_args(Quantization))
        raise ValueError(f"quantization must be one of {choices}, got {quantization!r}")
    opened = Checkpoint.open(checkpoint)
    network = opened.network()
    if isinstance(network, HybridNetwork):
        network = network.reader
    if not isinstance(network, AutoregressiveNetwork):
        kind = opened.metadata.network_name
        raise CheckpointError(
            f"CTranslate2 runs autoregressive networks only, but {checkpoint} is of kind {kind}"
        )
    spec = _spec(network)
    pieces = opened.tokenizer.pieces(range(opened.tokenizer.vocabulary_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    with tempfile.TemporaryDirectory() as scratch, atomic_directory(Path(output)) as directory:
        if vmap is not None:
            path = Path(scratch) / "vmap.txt"
            path.write_text(vmap, encoding="utf-8")
            spec.register_vocabulary_mapping(str(path))
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(directory))
        opened.tokenizer.save(directory / TOKENIZER)


def converted(checkpoint: Path, quantization: Literal["float32", "int8"]) -> Path:
    """Return a checkpoint as a CTranslate2 model in the user's cache, where it is put unless it is there.

    Weights, tokenizer and versions decide what it is called, so that no other one is ever taken for it.
    """
    opened = Checkpoint.open(checkpoint)
    facts = [opened.metadata.weights_sha256, opened.tokenizer.sha256, quantization]
    facts += [__version__, version("ctranslate2")]
    name = hashlib.sha256(" ".join(facts).encode()).hexdigest()[:32]
    place = cache_directory() / "ctranslate2" / name
    if not place.is_dir():
        convert(checkpoint, place, quantization)
    return place


def _spec(network: AutoregressiveNetwork) -> "TransformerSpec":
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    config = network.config.transformer
    spec = TransformerSpec.from_config(
        (config.layers_encoder, config.layers_decoder),
        config.heads,
        pre_norm=config.pre_norm,
        activation={"gelu": Activation.GELU, "relu": Activation.RELU}[config.activation],
    )
    embeddings = network.embeddings
    spec.config.add_attribute("max_positions", config.max_positions)  # it does not say otherwise, and fails
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.encoder.embeddings[0].weight = (embeddings.source_tokens or embeddings.tokens).weight.detach()
    spec.encoder.position_encodings.encodings = embeddings.source_positions.weight.detach()
    spec.decoder.embeddings.weight = embeddings.tokens.weight.detach()
    spec.decoder.position_encodings.encodings = embeddings.target_positions.weight.detach()
    spec.decoder.projection.weight = embeddings.tokens.weight.detach()
    for stack, layers in ((network.encoder, spec.encoder), (network.decoder, spec.decoder)):
        if isinstance(stack.norm, nn.LayerNorm):
            _norm(layers.layer_norm, stack.norm)
        for layer, inside in zip(stack.layers, layers.layer, strict=True):
            _layer(inside, layer)
    return spec


def _layer(spec: "TransformerEncoderLayerSpec | TransformerDecoderLayerSpec", layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer | DecoderLayer)
    _attention(spec.self_attention, layer.self_attention, layer.around_self)
    if isinstance(layer, DecoderLayer):
        _attention(spec.attention, layer.cross_attention, layer.around_cross)
    _feed_forward(spec.ffn, layer.feed_forward, layer.around_feed)


def _attention(
    spec: "MultiHeadAttentionSpec", attention: SelfAttention | CrossAttention, around: Residual
) -> None:
    """Both sides store queries, keys and values of all heads one below the other, in this order."""
    own = [attention.project, attention.output]
    maps = own if isinstance(attention, SelfAttention) else [attention.query, *own]
    for inside, linear in zip(spec.linear, maps, strict=True):
        _linear(inside, linear)
    _norm(spec.layer_norm, around.norm)


def _feed_forward(spec: "FeedForwardSpec", feed_forward: FeedForward, around: Residual) -> None:
    _linear(spec.linear_0, feed_forward.widen)
    _linear(spec.linear_1, feed_forward.output)
    _norm(spec.layer_norm, around.norm)


def _linear(spec: "LinearSpec", linear: nn.Linear) -> None:
    spec.weight, spec.bias = linear.weight.detach(), linear.bias.detach()


def _norm(spec: "LayerNormSpec", norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight.detach(), norm.bias.detach()
