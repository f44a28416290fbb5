"""What an output was made with: a job that is resumed must be the job that was started."""

from collections.abc import Mapping
from pathlib import Path

UNSTATED = "unstated"


def check_same_job(before: Mapping[str, str], now: Mapping[str, str], record: Path) -> None:
    """Raise an error that names the first fact in which two jobs differ; `record` is what to delete then."""
    for key in [*now, *(key for key in before if key not in now)]:
        was, found = before.get(key, UNSTATED), now.get(key, UNSTATED)
        if was != found:
            advice = f"use another output, or delete {record} to start over"
            raise ValueError(f"cannot resume: {key} changed from {was} to {found}; {advice}")
