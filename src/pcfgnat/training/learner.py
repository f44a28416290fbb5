"""One step of learning: network, objective, optimiser and running mean together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from pcfgnat.checkpoints.weights import load_weights, own_weights
from pcfgnat.networks import Batch, Network
from pcfgnat.objectives import Loss, Step
from pcfgnat.structures import Padded
from pcfgnat.text.special import SPECIAL_TOKENS
from pcfgnat.training.config import TrainConfig
from pcfgnat.training.ema import Ema
from pcfgnat.training.hardware import autocast
from pcfgnat.training.optimiser import adamw, memory, restore_memory, set_rate
from pcfgnat.training.processes.exchange import exchange_for
from pcfgnat.training.processes.workers import ALONE, Workers
from pcfgnat.training.record.state import prefixed, random_states, restore_random_states, without_prefix

Fault = Literal["not finite", "spike", "no target"]


@dataclass(frozen=True)
class StepResult:
    """Figures of a step. After a `fault` the weights are as they were.

    `token_loss` is the loss per target token, `skipped` counts sentences that the network cannot produce.
    """

    loss: float
    token_loss: float
    grad_norm: float
    tokens: int
    skipped: int
    fault: Fault | None
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Part:
    """Figures of one batch in one process; `count` is how many sentences or tokens the loss is a mean of."""

    loss: float
    count: int
    tokens: int
    skipped: int
    metrics: dict[str, float]


class Learner:
    """All that changes with each step but the position in the data."""

    def __init__(
        self, network: Network, config: TrainConfig, device: torch.device, workers: Workers = ALONE
    ) -> None:
        self.network, self.objective = network.to(device), config.objective_value()
        self.config, self.device, self.workers = config, device, workers
        self.ema = None if config.ema.decay is None else Ema(self.network, config.ema.decay)
        step = Step(self.network, self.objective)
        self._exchange = exchange_for(step, config.distributed.exchange, workers)
        if self.ema is not None:
            self._exchange.spread(self.ema.network)
        self.optimiser = adamw(self.network, config.optimiser)

    @property
    def validated(self) -> Network:
        """The network that is worth keeping, in one piece; all processes must ask for it at the same time."""
        return self._exchange.in_one_piece(self.network if self.ema is None else self.ema.network)

    def step(
        self,
        batches: Sequence[Batch | None],
        rate: float,
        progress: float,
        updates: int,
        spike_above: float = math.inf,
    ) -> StepResult:
        """Learn from the batches of one step; nothing changes if gradients or loss are not as they should be.

        `spike_above` is a loss per target token. Every process has the same number of batches; None is one in
        which it has no sentence. The result is that of all processes together, and the same in each.
        """
        self.network.train()
        set_rate(self.optimiser, rate)
        parts = self._backward(batches, progress)
        total = sum(part.count for part in parts)
        norm = self._clipped() if total else 0.0
        tokens, skipped = sum(part.tokens for part in parts), sum(part.skipped for part in parts)
        value, metrics = _means(parts, total)
        token_loss = value * total / tokens if tokens else math.nan
        fault = _fault(total, value, norm, token_loss > spike_above)
        if fault is None:
            self.optimiser.step()
            if self.ema is not None:
                self.ema.update(self.network, updates)
        self.optimiser.zero_grad(set_to_none=True)
        return StepResult(value, token_loss, norm, tokens, skipped, fault, metrics)

    def _backward(self, batches: Sequence[Batch | None], progress: float) -> list[_Part]:
        """Add up gradients, so that each sentence (or token) of the step counts the same.

        Return the figures of all batches of all processes.
        """
        size, losses = self.workers.size, []
        for place, batch in enumerate(batches):
            with self._exchange.piece(last=place == len(batches) - 1):
                with autocast(self.config, self.device):
                    loss = self._exchange.loss(self._stand_in() if batch is None else batch, progress)
                count = 0 if batch is None else self._counted(loss)
                value = loss.value if size * len(batches) == 1 else loss.value * count
                value.backward()  # type: ignore[no-untyped-call]
            if batch is not None:
                losses.append(replace(loss, value=loss.value.detach()))
        parts = [self._part(loss) for loss in losses]  # not before: it waits for the device
        told = self.workers.gathered([asdict(part) for part in parts])
        parts = [_Part(**part) for process in told for part in process]
        total = sum(part.count for part in parts)
        if size * len(batches) > 1 and total:
            torch._foreach_mul_(self._gradients(), size / total)  # the exchange has divided by `size`
        return parts

    def _clipped(self) -> float:
        """Clip the gradients, and return the norm that they had: that of all parts if they are spread."""
        norm = self._exchange.whole({"": torch.nn.utils.get_total_norm(self._gradients())})[""]
        parameters = [p for p in self.network.parameters() if p.grad is not None]
        torch.nn.utils.clip_grads_with_norm_(parameters, self.config.optimiser.clip, norm)
        return float(norm)

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self.network.parameters() if p.grad is not None]

    def _stand_in(self) -> Batch:
        """Return an empty sentence, for a process that must take part without one of its own."""
        ids = torch.tensor([[SPECIAL_TOKENS.bos, SPECIAL_TOKENS.eos]], device=self.device)
        empty = Padded(ids, torch.tensor([2], device=self.device))
        return Batch(empty, empty)

    def _counted(self, loss: Loss) -> Tensor:
        return loss.counts.sentences if self.objective.weight == "sentences" else loss.counts.tokens

    def _part(self, loss: Loss) -> _Part:
        count = loss.sentences if self.objective.weight == "sentences" else loss.tokens
        return _Part(loss.mean, count, loss.tokens, loss.skipped, loss.metrics)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that must be restored to resume, to the first process; all of them must ask."""
        mean = {} if self.ema is None else prefixed("ema", own_weights(self.ema.network))
        own = {
            **prefixed("model", own_weights(self.network)),
            **prefixed("optimiser", memory(self.optimiser, self.network)),
            **prefixed("random", random_states()),
            **mean,
        }
        return self._exchange.whole(own, keep=self.workers.main)

    def restore(self, tensors: Mapping[str, Tensor], origin: str) -> None:
        """Take everything back."""
        self._load(self.network, without_prefix("model", tensors), origin)
        if self.ema is not None:
            self._load(self.ema.network, without_prefix("ema", tensors), origin)
        place = self._exchange.placed_like
        restore_memory(self.optimiser, self.network, without_prefix("optimiser", tensors), place)
        restore_random_states(without_prefix("random", tensors))

    def _load(self, network: Network, tensors: Mapping[str, Tensor], origin: str) -> None:
        own, place = own_weights(network), self._exchange.placed_like
        placed = {
            name: place(tensor, own[name]) if name in own else tensor for name, tensor in tensors.items()
        }
        load_weights(network, placed, origin)


def _means(parts: Sequence[_Part], total: int) -> tuple[float, dict[str, float]]:
    """Return loss and metrics of the whole step."""
    if not total:
        return math.nan, {}
    shares = [part.count / total for part in parts]
    value = sum(share * part.loss for share, part in zip(shares, parts, strict=True) if share)
    metrics: dict[str, float] = {}
    for share, part in zip(shares, parts, strict=True):
        for name, number in part.metrics.items() if share else ():
            metrics[name] = metrics.get(name, 0.0) + share * number
    return value, metrics


def _fault(total: int, loss: float, norm: float, spike: bool) -> Fault | None:
    if not total:
        return "no target"
    if not (math.isfinite(loss) and math.isfinite(norm)):
        return "not finite"
    return "spike" if spike else None
