"""Figures by sentence length."""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

BOUNDS = (5, 10, 15, 20, 30, 50)  # last length of each class, in target tokens without bos and eos

T = TypeVar("T")


def length_class(tokens: int) -> int:
    """Return the index of a length's class."""
    return sum(tokens > bound for bound in BOUNDS)


def _class_name(index: int) -> str:
    if index == len(BOUNDS):
        return f"> {BOUNDS[-1]}"
    return f"{BOUNDS[index - 1] + 1 if index else 0}–{BOUNDS[index]}"  # noqa: RUF001 (a dash, as in print)


CLASSES = tuple(_class_name(index) for index in range(len(BOUNDS) + 1))


def by_length(items: Iterable[tuple[int, T]]) -> dict[str, list[T]]:
    """Sort items, given with their lengths, into classes by name; empty classes are left out."""
    found: dict[str, list[T]] = {name: [] for name in CLASSES}
    for tokens, item in items:
        found[CLASSES[length_class(tokens)]].append(item)
    return {name: inside for name, inside in found.items() if inside}


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


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of all lies, interpolated between neighbours."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def ratio(part: int | float, whole: int | float) -> float | None:
    """Return a share; none of nothing."""
    return part / whole if whole else None
