"""Small networks of random weights, by name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeVar

import torch

from pcfgnat.grammar.canvas import SAME_LENGTH
from pcfgnat.networks import (
    AutoregressiveConfig,
    AutoregressiveNetwork,
    CanvasNetwork,
    CMLMCConfig,
    CMLMCNetwork,
    CTCConfig,
    CTCNetwork,
    DAGConfig,
    DAGNetwork,
    DiscoConfig,
    DiscoNetwork,
    FlowSeqConfig,
    FlowSeqNetwork,
    HybridConfig,
    HybridNetwork,
    ImputerNetwork,
    Network,
    PCFGConfig,
    PCFGNetwork,
    PredictedLengthNetwork,
    SlotsConfig,
    SlotsNetwork,
)
from pcfgnat.nn import LinkConfig, TransformerConfig
from pcfgnat.nn.flow import FlowConfig
from pcfgnat.objectives import Glancing, Likelihood
from tests.support.sentences import VOCABULARY

SMALL = TransformerConfig(
    layers_encoder=1, layers_decoder=2, width=16, ffn=24, heads=2, dropout=0.1, max_positions=40
)
UNDROPPED = replace(SMALL, dropout=0.0)
DEEPER = replace(SMALL, layers_encoder=2)
LARGER = replace(UNDROPPED, layers_encoder=2, width=64, ffn=128, heads=4)
LINKS = LinkConfig(heads=2)


def stirred(network: CMLMCNetwork) -> CMLMCNetwork:
    """Move the weights that begin as nothing."""
    for name, weight in network.named_parameters():
        if "causal_attention" in name or "_map." in name:
            weight.data += 0.2 * torch.randn_like(weight)
    return network


AnyNetwork = TypeVar("AnyNetwork", bound=Network)
Builder = Callable[[TransformerConfig, bool], CanvasNetwork]
CANVAS: dict[str, Builder] = {
    "pcfg": lambda t, copy: PCFGNetwork(PCFGConfig(t, copy, upsampling=2, rules=LINKS), VOCABULARY),
    "pcfg of depth 2": lambda t, copy: PCFGNetwork(
        PCFGConfig(t, copy, upsampling=2, prefix_depth=2, rules=LINKS), VOCABULARY
    ),
    "dag": lambda t, copy: DAGNetwork(DAGConfig(t, copy, upsampling=3, transitions=LINKS), VOCABULARY),
    "ctc": lambda t, copy: CTCNetwork(CTCConfig(t, copy), VOCABULARY),
    "slots": lambda t, copy: SlotsNetwork(SlotsConfig(t, copy), VOCABULARY),
    "cmlmc": lambda t, copy: stirred(CMLMCNetwork(CMLMCConfig(t, copy), VOCABULARY)),
    "imputer": lambda t, copy: ImputerNetwork(CTCConfig(t, copy), VOCABULARY),
    "disco": lambda t, copy: DiscoNetwork(DiscoConfig(t, copy), VOCABULARY),
}
NAMES = [*CANVAS, "autoregressive", "flowseq", "hybrid"]

GLANCING = Likelihood(Glancing(0.5, 0.1))  # of the paper


def made(
    name: str, transformer: TransformerConfig = SMALL, copy_input: bool = False, seed: int = 0
) -> CanvasNetwork:
    """A one-pass network, large enough to have opinions."""
    torch.manual_seed(seed)
    network = opinionated(CANVAS[name](transformer, copy_input))
    if isinstance(network, PredictedLengthNetwork):
        predict_length(network, SAME_LENGTH - 1)
    return network


def autoregressive(
    transformer: TransformerConfig = DEEPER, vocabulary: int = VOCABULARY, seed: int = 0
) -> AutoregressiveNetwork:
    """A network that writes token by token."""
    torch.manual_seed(seed)
    return opinionated(AutoregressiveNetwork(AutoregressiveConfig(transformer), vocabulary))


def flowseq(transformer: TransformerConfig = UNDROPPED, seed: int = 0) -> FlowSeqNetwork:
    """A network of latents, whose flows are far from the identity."""
    torch.manual_seed(seed)
    flow = FlowConfig((1, 1), ffn=8, heads=2)
    network = opinionated(FlowSeqNetwork(FlowSeqConfig(transformer, 1, 0.0, flow), VOCABULARY))
    for weight in network.prior.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    network.length.bias.data[SAME_LENGTH - 1 : SAME_LENGTH + 1] = 50.0  # one of the two is even
    return network


def hybrid(
    drafter: Literal["pcfg", "dag"] = "pcfg", transformer: TransformerConfig = DEEPER, seed: int = 0
) -> HybridNetwork:
    """A network that drafts by one layer and reads by another number of them."""
    torch.manual_seed(seed)
    size, depth = replace(transformer, layers_decoder=1), 1 if drafter == "pcfg" else 0
    config = HybridConfig(size, True, 2, depth, LINKS, drafter, layers_reader=2)
    return opinionated(HybridNetwork(config, VOCABULARY))


def any_network(name: str) -> Network:
    if name == "flowseq":
        return flowseq()
    if name == "hybrid":
        return hybrid()
    return autoregressive() if name == "autoregressive" else made(name)


def opinionated(network: AnyNetwork) -> AnyNetwork:
    """Enlarge the weights, so that it is not undecided."""
    network = network.double().eval()
    for weight in network.parameters():
        weight.data *= 1.5
    return network


def predict_length(network: PredictedLengthNetwork, label: int) -> None:
    """Let the most probable length be that of one class; at SAME_LENGTH it is the source's."""
    assert network.length is not None
    network.length.bias.data[label] = 50.0
