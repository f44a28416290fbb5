"""A running mean of the weights."""

import copy

import torch

from pcfgnat.networks import Model


class Ema:
    """A second model whose weights follow those of the first one slowly."""

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: Model, updates: int) -> None:
        """Move towards the weights of a model, after `updates` earlier moves."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - decay)
        for own, new in zip(self.model.buffers(), model.buffers(), strict=True):
            own.copy_(new)
