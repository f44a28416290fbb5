"""How much is said beside results: progress bars, and the verbosity that the command line sets."""

import sys
from contextvars import ContextVar
from enum import IntEnum
from typing import Any


class Verbosity(IntEnum):
    """`-q`, neither, or `-v`."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


VERBOSITY: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity.NORMAL)


def is_quiet() -> bool:
    """Return whether only results and errors are wanted."""
    return VERBOSITY.get() is Verbosity.QUIET


def progress_bar(
    label: str, unit: str, total: int | None = None, initial: int = 0, hidden: bool = False
) -> Any:
    """Return a bar on stderr with rate and time left; it shows nothing without a terminal, hidden or with -q.

    A unit of "B" is counted in kB, MB and GB.
    """
    from tqdm import tqdm

    return tqdm(
        desc=label or None,
        total=total,
        initial=initial,
        unit=unit if unit == "B" else f" {unit}",
        unit_scale=unit == "B",
        disable=True if hidden or is_quiet() else None,
        leave=False,
    )


def is_shown() -> bool:
    """Return whether bars are seen by anybody, so that it is worth while to count what is to be done."""
    return sys.stderr.isatty() and not is_quiet()


def activity(label: str) -> Any:
    """Return a line on stderr that is shown during work of unknown duration."""
    from tqdm import tqdm

    return tqdm(desc=label, bar_format="{desc} …", disable=True if is_quiet() else None, leave=False)
