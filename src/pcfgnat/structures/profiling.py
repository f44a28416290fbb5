"""Names for the parts of a model in torch's profiler: what `torch.profiler` shows of a training step."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from torch.profiler import record_function

ENCODER = "pcfgnat.encoder"
GLANCING = "pcfgnat.glancing"
DECODER = "pcfgnat.decoder"
OUTPUT_LAYER = "pcfgnat.output_layer"
RULE_SCORES = "pcfgnat.rule_scores"
DYNAMIC_PROGRAM = "pcfgnat.dynamic_program"

P = ParamSpec("P")
R = TypeVar("R")


def profiled(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator under which a profiler sees all calls of a function by this name."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def recorded(*arguments: P.args, **named: P.kwargs) -> R:
            with record_function(name):  # a new one for each call: threads must not share it
                return function(*arguments, **named)

        return recorded

    return decorated
