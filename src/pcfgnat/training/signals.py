"""Ctrl-C and the like: finish the step, save, go."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """Notes SIGINT and SIGTERM while its block runs; the second one ends the process as usual."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._before: dict[signal.Signals, Any] = {}
        self.received: signal.Signals | None = None

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def stopped(self) -> bool:
        """Whether a signal came."""
        return self.received is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._restore()
        self._say(f"{self.received.name}: saving after this step; interrupt again to quit without saving")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
