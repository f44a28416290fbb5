"""Where the time of a training step goes, by the names that torch's profiler sees."""

from collections.abc import Iterable
from typing import Any

from torch.profiler import ProfilerActivity, profile

from pcfgnat.structures.profiling import (
    DECODER,
    DYNAMIC_PROGRAM,
    ENCODER,
    GLANCING,
    OUTPUT_LAYER,
    RULE_SCORES,
)

PROGRAM, BACKWARD, OPTIMISER, REST = "dynamic program", "backward", "optimiser", "rest"
NAMES = {
    ENCODER: "encoder",
    GLANCING: "glancing pass",
    DECODER: "decoder",
    OUTPUT_LAYER: "output layer",
    RULE_SCORES: "rule scores",
    DYNAMIC_PROGRAM: PROGRAM,
}
STARTS = {"autograd::engine::evaluate_function": BACKWARD, "Optimizer.": OPTIMISER}
REGIONS = (*NAMES.values(), BACKWARD, OPTIMISER, REST)
# All that happens in these counts for them, but for the dynamic program.
WHOLE = (NAMES[GLANCING], BACKWARD, OPTIMISER)


def new_profile() -> profile:
    """Return a profiler of this process, for a `with` block."""
    return profile(activities=[ProfilerActivity.CPU], acc_events=True)


def seconds_by_region(events: Iterable[Any], whole: float) -> dict[str, float]:
    """Divide the seconds of a step among regions; each event's own time counts for the region it is in."""
    seconds = dict.fromkeys(REGIONS, 0.0)
    pending = [(event, REST) for event in events if event.cpu_parent is None]
    while pending:
        event, outer = pending.pop()
        region = _region(event.name, outer)
        seconds[region] += event.self_cpu_time_total / 1e6
        pending += [(child, region) for child in event.cpu_children]
    seconds[REST] += max(whole - sum(seconds.values()), 0.0)  # between the events
    return seconds


def _region(name: str, outer: str) -> str:
    own = NAMES.get(name) or next(
        (region for start, region in STARTS.items() if name.startswith(start)), None
    )
    if own is None or outer == PROGRAM or (outer in WHOLE and own != PROGRAM):
        return outer
    return own
