"""Means, quantiles and ratios, of whatever was measured."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds of a call: median, 95th and 99th percentile, quartiles, and the number of calls."""

    median: float
    p95: float
    low: float
    high: float
    calls: int
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Timing":
        """Return the summary of some times."""
        p95, low, high = (quantile(seconds, share) for share in (0.95, 0.25, 0.75))
        return cls(statistics.median(seconds), p95, low, high, len(seconds), quantile(seconds, 0.99))


@dataclass(frozen=True)
class Ratio:
    """One median over another, and the quartiles of the same ratio taken round by round."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> "Ratio":
        """Return the ratio of medians over all rounds; the spread is over rounds that both took part in.

        A disturbance of one round hits both, so it hardly shows in the spread.
        """
        rounds = [(a, b) for a, b in zip(above, below, strict=False) if a and b]
        paired = [statistics.median(a) / statistics.median(b) for a, b in rounds]
        whole_above, whole_below = ([one for calls in side for one in calls] for side in (above, below))
        value = statistics.median(whole_above) / statistics.median(whole_below)
        return cls(value, quantile(paired, 0.25), quantile(paired, 0.75)) if paired else cls(*[value] * 3)


def mean(values: Sequence[int | float]) -> float | None:
    """Return the mean; none of nothing."""
    return math.fsum(values) / len(values) if values else None


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; none of fewer than two values."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    spread = math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(spread / len(values))


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value below which this share of all lies, interpolated between neighbours."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a quantile needs at least one value, got none")
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def ratio(part: int | float, whole: int | float) -> float | None:
    """Return a share; none of nothing."""
    return part / whole if whole else None
