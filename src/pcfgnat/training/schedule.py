"""How far a run has come, when it ends, and the learning rate on the way."""

import math
from dataclasses import dataclass

from pcfgnat.training.config import OptimiserConfig, TrainConfig


@dataclass(frozen=True)
class Limits:
    """Where a run ends: at the first of those that are given."""

    steps: int | None
    epochs: float | None
    seconds: float | None

    @classmethod
    def of(cls, config: TrainConfig) -> "Limits":
        """Take the limits from the settings; minutes become seconds."""
        budget = config.time_budget
        return cls(config.steps, config.epochs, None if budget is None else 60 * budget)

    def progress(self, step: int, epochs: float, seconds: float) -> float:
        """Share of the run that is done, from 0 to 1: that of the limit which is nearest."""
        done = ((step, self.steps), (epochs, self.epochs), (seconds, self.seconds))
        return min(1.0, max(now / limit for now, limit in done if limit is not None))

    def reached(self, step: int, epochs: float, seconds: float) -> str | None:
        """Name the limit that is reached, if one is."""
        if self.steps is not None and step >= self.steps:
            return f"{self.steps} steps"
        if self.epochs is not None and epochs >= self.epochs:
            return f"{self.epochs:g} epochs"
        if self.seconds is not None and seconds >= self.seconds:
            return f"time budget of {self.seconds / 60:g} minutes"
        return None


def rate(config: OptimiserConfig, step: int, progress: float) -> float:
    """Learning rate of a step, the first of which is 0."""
    warm_up = (step + 1) / config.warm_up if config.warm_up else 1.0
    falling = {
        "constant": 1.0,
        "linear": 1.0 - progress,
        "inverse_sqrt": math.sqrt(max(config.warm_up, 1) / (step + 1)),
    }[config.schedule]
    return config.rate * min(1.0, warm_up, falling)
