"""One step of learning: model, optimiser and running mean together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pcfgnat.checkpoint import load_weights, own_weights
from pcfgnat.models import Batch, Loss, Model
from pcfgnat.training.config import TrainConfig
from pcfgnat.training.ema import Ema
from pcfgnat.training.hardware import autocast
from pcfgnat.training.optimiser import adamw, memory, restore_memory, set_rate
from pcfgnat.training.state import prefixed, random_states, restore_random_states, without_prefix


@dataclass(frozen=True)
class StepResult:
    """Figures of a step. `updated` is false if the weights were left as they were."""

    loss: float
    grad_norm: float
    tokens: int
    skipped: int
    updated: bool
    finite: bool
    metrics: dict[str, float] = field(default_factory=dict)


class Learner:
    """All that changes with each step but the position in the data."""

    def __init__(self, model: Model, config: TrainConfig, device: torch.device) -> None:
        self.model = model.to(device)
        self.config = config
        self.device = device
        self.optimiser = adamw(self.model, config.optimiser)
        self.ema = None if config.ema.decay is None else Ema(self.model, config.ema.decay)

    @property
    def validated(self) -> Model:
        """The model that is worth keeping."""
        return self.model if self.ema is None else self.ema.model

    def step(self, batches: Sequence[Batch], rate: float, progress: float, updates: int) -> StepResult:
        """Learn from the batches of one step; nothing changes if a gradient is not finite."""
        self.model.train()
        set_rate(self.optimiser, rate)
        losses, total = self._backward(batches, progress)
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.config.optimiser.clip)) if total else 0.0
        finite = math.isfinite(norm)
        updated = finite and total > 0
        if updated:
            self.optimiser.step()
            if self.ema is not None:
                self.ema.update(self.model, updates)
        self.optimiser.zero_grad(set_to_none=True)
        tokens, skipped = sum(loss.tokens for loss in losses), sum(loss.skipped for loss in losses)
        value, metrics = self._means(losses, total)
        return StepResult(value, norm, tokens, skipped, updated, finite, metrics)

    def _backward(self, batches: Sequence[Batch], progress: float) -> tuple[list[Loss], int]:
        """Add up gradients, so that each sentence (or token) of the step counts the same."""
        losses = []
        for batch in batches:
            with autocast(self.config, self.device):
                loss = self.model.loss(batch, progress)
            if count := self._count(loss):
                value = loss.value if len(batches) == 1 else loss.value * count
                value.backward()  # type: ignore[no-untyped-call]
            losses.append(Loss(loss.value.detach(), loss.sentences, loss.tokens, loss.skipped, loss.metrics))
        total = sum(map(self._count, losses))
        if len(batches) > 1 and total:
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            torch._foreach_div_(gradients, total)
        return losses, total

    def _means(self, losses: Sequence[Loss], total: int) -> tuple[float, dict[str, float]]:
        """Return loss and metrics of the whole step."""
        if not total:
            return math.nan, {}
        shares = [self._count(loss) / total for loss in losses]
        value = sum(share * float(loss.value) for share, loss in zip(shares, losses, strict=True) if share)
        metrics: dict[str, float] = {}
        for share, loss in zip(shares, losses, strict=True):
            for name, number in loss.metrics.items() if share else ():
                metrics[name] = metrics.get(name, 0.0) + share * number
        return value, metrics

    def _count(self, loss: Loss) -> int:
        return loss.sentences if self.model.loss_weight == "sentences" else loss.tokens

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that must be restored to go on."""
        mean = {} if self.ema is None else prefixed("ema", own_weights(self.ema.model))
        return {
            **prefixed("model", own_weights(self.model)),
            **prefixed("optimiser", memory(self.optimiser, self.model)),
            **prefixed("random", random_states()),
            **mean,
        }

    def restore(self, tensors: Mapping[str, Tensor], origin: str) -> None:
        """Take everything back."""
        load_weights(self.model, without_prefix("model", tensors), origin)
        if self.ema is not None:
            load_weights(self.ema.model, without_prefix("ema", tensors), origin)
        restore_memory(self.optimiser, self.model, without_prefix("optimiser", tensors))
        restore_random_states(without_prefix("random", tensors))
