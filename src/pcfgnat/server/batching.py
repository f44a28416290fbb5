"""Requests that come at the same time, worked on together in one thread: a bounded queue, a bounded wait."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pcfgnat.server.limits import Limits

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class QueueFullError(Exception):
    """There is no place left to wait in."""


class ClosingError(Exception):
    """The server finishes what it has accepted, and accepts nothing more."""


@dataclass(frozen=True)
class Answer(Generic[Result]):
    """The results of a request, in the order of its texts, and how they came about (in seconds)."""

    results: list[Result]
    waited: float
    worked: float
    batch: int


@dataclass(eq=False)
class _Job(Generic[Key, Result]):
    key: Key
    texts: list[str]
    arrived: float
    future: "asyncio.Future[Answer[Result]]" = field(repr=False)


class Batcher(Generic[Key, Result]):
    """Calls `work(key, texts)` in a thread of its own, for all requests that wait with an equal key.

    The oldest request comes first, and those like it come along, as many as fit into a batch. A request
    whose client goes away while it waits (its task is cancelled) leaves the queue at once.
    """

    def __init__(
        self,
        work: Callable[[Key, list[str]], list[Result]],
        limits: Limits,
        observe: Callable[[int], None] = lambda texts: None,
    ) -> None:
        self._work, self._limits, self._observe = work, limits, observe
        self._jobs: dict[_Job[Key, Result], None] = {}  # in order of arrival; any can leave at once
        self._changed = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pcfgnat-model")
        self._worker: asyncio.Task[None] | None = None

    def waiting(self) -> int:
        """How many texts are in the queue."""
        return sum(len(job.texts) for job in self._jobs)

    async def __aenter__(self) -> "Batcher[Key, Result]":
        self._worker = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Finish what was accepted."""
        self._closing = True
        self._changed.set()
        if self._worker is not None:
            await self._worker
        self._thread.shutdown()

    async def __call__(self, key: Key, texts: list[str]) -> Answer[Result]:
        """Wait for the results of some texts."""
        if self._closing:
            raise ClosingError
        if self._jobs and self.waiting() + len(texts) > self._limits.queue:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        job: _Job[Key, Result] = _Job(key, texts, loop.time(), loop.create_future())
        self._jobs[job] = None
        self._changed.set()
        try:
            return await job.future
        finally:
            self._jobs.pop(job, None)

    async def _serve(self) -> None:
        while self._jobs or not self._closing:
            if not self._jobs:
                self._changed.clear()
                await self._changed.wait()
                continue
            first = next(iter(self._jobs))
            await self._gather(first)
            await self._answer(self._taken(first.key))

    async def _gather(self, first: "_Job[Key, Result]") -> None:
        """Wait a moment for others to join the first."""
        loop = asyncio.get_running_loop()
        while not self._closing and sum(self._like(first.key).values()) < self._limits.batch:
            left = first.arrived + self._limits.wait - loop.time()
            if left <= 0:
                return
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return

    def _like(self, key: Key) -> "dict[_Job[Key, Result], int]":
        """All that wait with this key, and how many texts they have."""
        return {job: len(job.texts) for job in self._jobs if job.key == key}

    def _taken(self, key: Key) -> "list[_Job[Key, Result]]":
        """Take a batch off the queue; one request with more texts than that goes alone."""
        taken: list[_Job[Key, Result]] = []
        room = self._limits.batch
        for job, size in self._like(key).items():
            if taken and size > room:
                break
            taken.append(job)
            room -= size
            del self._jobs[job]
        return taken

    async def _answer(self, jobs: "list[_Job[Key, Result]]") -> None:
        """Work, and tell everybody who still waits."""
        if not jobs:
            return
        loop = asyncio.get_running_loop()
        texts = [text for job in jobs for text in job.texts]
        start = loop.time()
        try:
            results = await loop.run_in_executor(self._thread, self._work, jobs[0].key, texts)
        except Exception as error:
            await self._failed(jobs, error)
            return
        worked = loop.time() - start
        self._observe(len(texts))
        rest = iter(results)
        for job in jobs:
            own = [next(rest) for _ in job.texts]
            if not job.future.done():
                job.future.set_result(Answer(own, start - job.arrived, worked, len(texts)))

    async def _failed(self, jobs: "list[_Job[Key, Result]]", error: Exception) -> None:
        """Isolate the request that failed: the others are retried without it."""
        if len(jobs) > 1:
            for job in jobs:
                await self._answer([job])
        elif not jobs[0].future.done():
            jobs[0].future.set_exception(error)
