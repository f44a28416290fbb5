"""AdamW, what it decays, and its memory as named tensors."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from pcfgnat.networks import Network
from pcfgnat.nn.embeddings import PositionEmbedding, TokenEmbedding
from pcfgnat.training.config import OptimiserConfig

EMBEDDINGS = (nn.Embedding, TokenEmbedding, PositionEmbedding)


def adamw(network: Network, config: OptimiserConfig) -> torch.optim.AdamW:
    """Build the optimiser; weight decay is for matrices of linear maps, not for embeddings and vectors."""
    decayed = decayed_names(network)
    parameters = dict(network.named_parameters())
    groups = [
        {
            "params": [p for name, p in parameters.items() if name in decayed],
            "weight_decay": config.weight_decay,
        },
        {"params": [p for name, p in parameters.items() if name not in decayed], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, config.rate, betas=config.betas, eps=config.eps, fused=True)


def decayed_names(network: Network) -> set[str]:
    """Names of the parameters that are matrices and not embeddings."""
    embeddings = {
        id(parameter)
        for module in network.modules()
        if isinstance(module, EMBEDDINGS)
        for parameter in module.parameters(recurse=False)
    }
    return {name for name, p in network.named_parameters() if p.dim() >= 2 and id(p) not in embeddings}


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate of all parameters."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def memory(optimiser: torch.optim.Optimizer, network: Network) -> dict[str, Tensor]:
    """Return what the optimiser remembers, as `parameter/entry`."""
    return {
        f"{name}/{entry}": value
        for name, parameter in network.named_parameters()
        for entry, value in optimiser.state.get(parameter, {}).items()
    }


def restore_memory(
    optimiser: torch.optim.Optimizer,
    network: Network,
    tensors: Mapping[str, Tensor],
    placed_like: Callable[[Tensor, Tensor], Tensor],
) -> None:
    """Restore the optimiser's state, each tensor stored like the parameter it belongs to."""
    parameters = dict(network.named_parameters())
    for key, value in tensors.items():
        name, entry = key.rsplit("/", 1)
        parameter = parameters[name]
        optimiser.state[parameter][entry] = placed_like(value, parameter)
