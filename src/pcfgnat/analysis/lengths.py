"""Figures by sentence length."""

from collections.abc import Iterable
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
