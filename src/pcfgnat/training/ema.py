"""A running mean of the weights."""

import copy

import torch

from pcfgnat.networks import Network


class Ema:
    """A second network whose weights follow those of the first one slowly."""

    def __init__(self, network: Network, decay: float) -> None:
        self.decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, network: Network, updates: int) -> None:
        """Move towards the weights of a network, after `updates` earlier moves."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(list(self.network.parameters()), list(network.parameters()), 1 - decay)
        for own, new in zip(self.network.buffers(), network.buffers(), strict=True):
            own.copy_(new)
