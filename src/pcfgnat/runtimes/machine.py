"""How many cores a runtime gets, and what is passed on of its errors."""

import os
from pathlib import Path


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the error's name."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def available_cores() -> int:
    """Return the number of cores that this process may use; OMP_NUM_THREADS is respected."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
    return len({_core(cpu) for cpu in usable})


def _core(cpu: int) -> str:
    """Name the core of a logical processor: two of them may share one, and then one thread is enough."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return siblings.read_text(encoding="ascii").strip() if siblings.is_file() else str(cpu)
