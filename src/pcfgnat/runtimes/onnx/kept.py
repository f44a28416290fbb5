"""What depends on a length alone is made once, and kept for the lengths used last."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

KEPT_ROWS = 8192  # nodes of all canvases kept: at λ = 4, l = 1 those of the lengths up to 44


@dataclass
class Kept(Generic[T]):
    """Makes values by length, and remembers as many as have so many rows in all.

    make: from a length to its value
    size: from a length to the rows of its value
    """

    make: Callable[[int], T]
    rows: int = KEPT_ROWS
    size: Callable[[int], int] = int
    _kept: OrderedDict[int, T] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, length: int) -> T:
        """Return the value of a length."""
        with self._lock:
            if (known := self._kept.get(length)) is not None:
                self._kept.move_to_end(length)
                return known
        made = self.make(length)
        with self._lock:
            self._kept[length] = made
            while sum(map(self.size, self._kept)) > self.rows and len(self._kept) > 1:
                self._kept.popitem(last=False)
        return made
