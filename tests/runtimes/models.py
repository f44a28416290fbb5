"""Small networks of random weights with opinions, as checkpoints."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pcfgnat.checkpoints.checkpoint import describe, save_checkpoint
from pcfgnat.checkpoints.metadata import DecodingDefaults
from pcfgnat.networks import (
    NETWORKS,
    AutoregressiveConfig,
    CMLMCConfig,
    CMLMCNetwork,
    CTCConfig,
    DAGConfig,
    DiscoConfig,
    FlowSeqConfig,
    FlowSeqNetwork,
    HybridConfig,
    PCFGConfig,
    PredictedLengthNetwork,
    SlotsConfig,
)
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.nn.flow import FlowConfig
from pcfgnat.text import SubwordTokenizer
from tests.support.zoo import stirred

SMALL = TransformerConfig(
    layers_encoder=2, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.0, max_positions=24
)
OTHER = replace(SMALL, pre_norm=False, activation="relu", share_embeddings=False)
SHALLOW = replace(SMALL, layers_decoder=1)
PLAIN = LinkConfig(heads=2, positions=False, gate=False, scale=False)
GATED = LinkConfig(heads=4)

MODELS: dict[str, tuple[str, Any]] = {
    "depth 0": ("pcfg", PCFGConfig(SMALL, upsampling=2, prefix_depth=0, rules=GATED)),
    "depth 1": ("pcfg", PCFGConfig(SMALL, upsampling=2, prefix_depth=1, rules=GATED, copy_input=True)),
    "depth 2": ("pcfg", PCFGConfig(OTHER, upsampling=1, prefix_depth=2, rules=GATED)),
    "depth 3": ("pcfg", PCFGConfig(SMALL, upsampling=1, prefix_depth=3, rules=PLAIN, copy_input=True)),
    "one head": ("pcfg", PCFGConfig(OTHER, upsampling=3, rules=LinkConfig(heads=1))),
    "dag": ("dag", DAGConfig(SMALL, upsampling=3, transitions=GATED)),
    "plain dag": ("dag", DAGConfig(OTHER, upsampling=1, transitions=PLAIN, copy_input=True)),
    "ctc": ("ctc", CTCConfig(SMALL, upsampling=2)),
    "copying ctc": ("ctc", CTCConfig(OTHER, upsampling=3, copy_input=True)),
    "autoregressive": ("autoregressive", AutoregressiveConfig(SMALL)),
    "other autoregressive": ("autoregressive", AutoregressiveConfig(OTHER)),
    "slots": ("slots", SlotsConfig(SMALL)),
    "copying slots": ("slots", SlotsConfig(OTHER, copy_input=True)),
    "cmlmc": ("cmlmc", CMLMCConfig(SMALL)),
    "copying cmlmc": ("cmlmc", CMLMCConfig(OTHER, copy_input=True)),
    "imputer": ("imputer", CTCConfig(SMALL, upsampling=2)),
    "copying imputer": ("imputer", CTCConfig(OTHER, upsampling=3, copy_input=True)),
    "disco": ("disco", DiscoConfig(SMALL)),
    "copying disco": ("disco", DiscoConfig(OTHER, copy_input=True)),
    "blank slots": ("slots", SlotsConfig(SMALL, blank=True)),
    "hybrid": ("hybrid", HybridConfig(SHALLOW, True, 2, 1, GATED, layers_reader=2)),
    "hybrid of a dag": ("hybrid", HybridConfig(OTHER, False, 3, 0, GATED, "dag")),
}
# those that only torch runs
NOT_EXPORTED: dict[str, tuple[str, Any]] = {
    "flowseq": ("flowseq", FlowSeqConfig(SMALL, 1, 0.0, FlowConfig((1, 1), ffn=16, heads=2))),
}
# those that the native kernels run: whole vectors of everything
WIDE = replace(SMALL, width=64, ffn=96, heads=2)
WIDE_OTHER = replace(WIDE, pre_norm=False, activation="relu", layers_decoder=1, heads=4)
WIDE_SHALLOW = replace(WIDE, layers_decoder=1)
WIDE_GATED = LinkConfig(heads=2)
NATIVE: dict[str, tuple[str, Any]] = {
    "wide depth 0": ("pcfg", PCFGConfig(WIDE, upsampling=2, prefix_depth=0, rules=WIDE_GATED)),
    "wide depth 1": ("pcfg", PCFGConfig(WIDE, True, upsampling=2, prefix_depth=1, rules=WIDE_GATED)),
    "wide depth 2": ("pcfg", PCFGConfig(WIDE_OTHER, upsampling=1, prefix_depth=2, rules=WIDE_GATED)),
    "wide depth 3": ("pcfg", PCFGConfig(WIDE, True, upsampling=1, prefix_depth=3, rules=PLAIN)),
    "wide one head": ("pcfg", PCFGConfig(WIDE_OTHER, upsampling=3, rules=LinkConfig(heads=1))),
    "wide dag": ("dag", DAGConfig(WIDE, upsampling=3, transitions=WIDE_GATED)),
    "wide plain dag": ("dag", DAGConfig(WIDE_OTHER, True, upsampling=1, transitions=PLAIN)),
    "wide autoregressive": ("autoregressive", AutoregressiveConfig(WIDE)),
    "wide other autoregressive": ("autoregressive", AutoregressiveConfig(WIDE_OTHER)),
    "wide hybrid": (
        "hybrid",
        HybridConfig(replace(WIDE, layers_decoder=1), True, 2, 1, WIDE_GATED, layers_reader=2),
    ),
    "wide hybrid of a dag": ("hybrid", HybridConfig(WIDE_OTHER, False, 3, 0, WIDE_GATED, "dag")),
}


def save_model(directory: Path, name: str, types: int = 40, factor: float = 1.7) -> Path:
    """Write a checkpoint of one of these models; the greater the factor, the stronger its opinions."""
    kind, config = (MODELS | NOT_EXPORTED | NATIVE)[name]
    tokenizer = SubwordTokenizer("\n".join(f"w{i}" for i in range(types)).encode())
    torch.manual_seed(len(name))
    network = NETWORKS[kind][0](config, tokenizer.vocabulary_size)
    if isinstance(network, CMLMCNetwork):
        stirred(network)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(factor)
        if isinstance(network, PredictedLengthNetwork | FlowSeqNetwork) and network.length is not None:
            network.length.weight.mul_(0.3)  # no two lengths far from the source's
            network.length.bias.copy_(-0.4 * (torch.arange(256) - 129.5).abs())
    metadata = describe(kind, config, tokenizer.vocabulary_size, DecodingDefaults(network.default_strategy))
    save_checkpoint(directory, network, tokenizer, metadata)
    return directory
