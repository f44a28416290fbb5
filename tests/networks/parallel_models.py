"""Small one-pass models of random weights, by name."""

from collections.abc import Callable
from dataclasses import replace

import torch

from pcfgnat.networks import (
    PCFGNetwork,
    CTCNetwork,
    CTCConfig,
    DAGConfig,
    DAGNetwork,
    CanvasNetwork,
    PCFGConfig,
    SlotsNetwork,
    SlotsConfig,
)
from pcfgnat.objectives import Glancing
from pcfgnat.networks.slots import SAME_LENGTH
from pcfgnat.nn import LinkConfig, TransformerConfig
from tests.networks.sentences import VOCABULARY

SMALL = TransformerConfig(
    layers_encoder=1, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.1, max_positions=40
)
UNDROPPED = replace(SMALL, dropout=0.0)
LARGER = TransformerConfig(
    layers_encoder=2, layers_decoder=2, width=64, ffn=128, heads=4, dropout=0.0, max_positions=40
)
LINKS = LinkConfig(heads=2)
GLANCING = Glancing()

Builder = Callable[[TransformerConfig, Glancing, bool], CanvasNetwork]
BUILDERS: dict[str, Builder] = {
    "pcfg": lambda t, g, copy: PCFGNetwork(PCFGConfig(t, g, copy, upsampling=2, rules=LINKS), VOCABULARY),
    "pcfg of depth 2": lambda t, g, copy: PCFGNetwork(
        PCFGConfig(t, g, copy, upsampling=2, prefix_depth=2, rules=LINKS), VOCABULARY
    ),
    "dag": lambda t, g, copy: DAGNetwork(
        DAGConfig(t, g, copy, upsampling=3, transitions=LINKS), VOCABULARY
    ),
    "ctc": lambda t, g, copy: CTCNetwork(CTCConfig(t, g, copy), VOCABULARY),
    "vanilla": lambda t, g, copy: SlotsNetwork(SlotsConfig(t, g, copy), VOCABULARY),
}
STRATEGIES = [
    *[("pcfg", strategy) for strategy in PCFGNetwork.strategies],
    ("pcfg of depth 2", "viterbi"),
    *[("dag", strategy) for strategy in DAGNetwork.strategies],
    *[("ctc", strategy) for strategy in CTCNetwork.strategies],
    *[("vanilla", strategy) for strategy in SlotsNetwork.strategies],
]
SEARCHES = [pair for pair in STRATEGIES if pair[1] != "sample"]
# those that compare all lengths
BY_LENGTH = [
    ("pcfg", "viterbi"),
    ("pcfg of depth 2", "viterbi"),
    ("dag", "viterbi"),
    ("dag", "joint-viterbi"),
]


def made(
    name: str,
    transformer: TransformerConfig = SMALL,
    glancing: Glancing = GLANCING,
    copy_input: bool = False,
    seed: int = 0,
) -> CanvasNetwork:
    """A model of random weights, large enough to have opinions."""
    torch.manual_seed(seed)
    model = BUILDERS[name](transformer, glancing, copy_input).double().eval()
    for weight in model.parameters():
        weight.data *= 1.5
    if isinstance(model, SlotsNetwork):
        predict_length(model, SAME_LENGTH - 1)
    return model


def predict_length(model: SlotsNetwork, label: int) -> None:
    """Let the most probable length be that of one class; at SAME_LENGTH it is the source's."""
    model.length.bias.data[label] = 50.0
