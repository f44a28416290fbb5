"""Small models of random weights with opinions, as checkpoints."""

from dataclasses import replace
from pathlib import Path

import torch

from pcfgnat.checkpoints.checkpoint import DecodingDefaults, describe, save_checkpoint
from pcfgnat.networks import (
    PCFGNetwork,
    CTCNetwork,
    CTCConfig,
    DAGConfig,
    DAGNetwork,
    PCFGConfig,
    SlotsNetwork,
    SlotsConfig,
)
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.text import SubwordTokenizer

SMALL = TransformerConfig(
    layers_encoder=2, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.0, max_positions=24
)
OTHER = replace(SMALL, pre_norm=False, activation="relu", share_embeddings=False)
PLAIN = LinkConfig(heads=2, positions=False, gate=False, scale=False)
GATED = LinkConfig(heads=4)

NETWORKS = {
    "depth 0": ("pcfg", PCFGConfig(SMALL, upsampling=2, prefix_depth=0, rules=GATED)),
    "depth 1": ("pcfg", PCFGConfig(SMALL, upsampling=2, prefix_depth=1, rules=GATED, copy_input=True)),
    "depth 2": ("pcfg", PCFGConfig(OTHER, upsampling=1, prefix_depth=2, rules=GATED)),
    "depth 3": ("pcfg", PCFGConfig(SMALL, upsampling=1, prefix_depth=3, rules=PLAIN, copy_input=True)),
    "one head": ("pcfg", PCFGConfig(OTHER, upsampling=3, rules=LinkConfig(heads=1))),
    "dag": ("dag", DAGConfig(SMALL, upsampling=3, transitions=GATED)),
    "plain dag": ("dag", DAGConfig(OTHER, upsampling=1, transitions=PLAIN, copy_input=True)),
    "ctc": ("ctc", CTCConfig(SMALL, upsampling=2)),
    "vanilla": ("vanilla", SlotsConfig(SMALL)),
}
CLASSES = {"pcfg": PCFGNetwork, "dag": DAGNetwork, "ctc": CTCNetwork, "vanilla": SlotsNetwork}


def save_model(directory: Path, name: str, types: int = 40) -> Path:
    """Write a checkpoint of one of `NETWORKS`."""
    kind, config = NETWORKS[name]
    tokenizer = SubwordTokenizer("\n".join(f"w{i}" for i in range(types)).encode())
    torch.manual_seed(len(name))
    model = CLASSES[kind](config, tokenizer.vocabulary_size)
    for weight in model.parameters():
        weight.data *= 1.7
    search = DecodingDefaults.of(model.default_search)
    save_checkpoint(directory, model, tokenizer, describe(kind, config, tokenizer.vocabulary_size, search))
    return directory
