"""Measuring side by side: interleaved runs, medians with their spread, and peak memory."""

import ctypes
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pcfgnat.benchmark.machine import machine
from pcfgnat.report.statistics import Timing


def shown(timing: Timing) -> str:
    """Median and quartiles in milliseconds."""
    return f"{1e3 * timing.median:.2f} ms ({1e3 * timing.low:.2f} to {1e3 * timing.high:.2f})"


def per_item(whole: Timing, items: int) -> Timing:
    """Return the times of one of so many items that each call worked on."""
    return Timing(
        median=whole.median / items,
        p95=whole.p95 / items,
        low=whole.low / items,
        high=whole.high / items,
        calls=whole.calls,
        p99=whole.p99 / items,
    )


def interleave(
    contenders: Mapping[str, Callable[[], object]],
    runs: int,
    warm_up: int = 1,
    before: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Timing]:
    """Time all contenders in turns, so that what disturbs the machine disturbs them alike.

    `before` holds what a contender needs before each of its runs; it is not timed.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(warm_up + runs):
        for name, call in contenders.items():
            if before is not None:
                before[name]()
            start = time.perf_counter()
            call()
            if turn >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return {name: Timing.of(values) for name, values in seconds.items()}


def peak_extra_bytes(call: Callable[[], object]) -> int | None:
    """Highest resident memory during the call above what was there before; None where Linux does not tell."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not (status.exists() and os.access(clear, os.W_OK)):
        return None
    ctypes.CDLL(None).malloc_trim(0)  # what earlier work left in the heap would hide what the call takes
    clear.write_text("5")  # resets the high-water mark
    before = _status_bytes(status, "VmHWM")
    call()
    return _status_bytes(status, "VmHWM") - before


def _status_bytes(status: Path, field: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def write_json(path: Path, results: Mapping[str, Any]) -> None:
    """Write results, with the machine's description beside them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = json.dumps({"machine": machine(), **results}, indent=2, default=asdict)
    path.write_text(plain + "\n", encoding="utf-8")
