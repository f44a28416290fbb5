"""The queue: what goes together, who waits, who is sent away, and what happens at the end."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from pcfgnat.server.batching import Answer, Batcher, ClosingError, QueueFullError
from pcfgnat.server.limits import Limits

Strings = Batcher[str, str]


class Worker:
    """Answers with the key and the text, while its gate is open; remembers what it was given."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[tuple[str, list[str]]] = []
        self.threads: set[int] = set()

    def __call__(self, key: str, texts: list[str]) -> list[str]:
        assert self.gate.wait(20)
        self.threads.add(threading.get_ident())
        self.batches.append((key, texts))
        if "poison" in texts:
            raise ValueError("poisoned")
        return [f"{key}:{text}" for text in texts]


def run(test: Callable[[Worker, Strings], Awaitable[None]], limits: Limits) -> Worker:
    worker = Worker()

    async def whole() -> None:
        async with Batcher(worker, limits) as batcher:
            await test(worker, batcher)

    asyncio.run(whole())
    return worker


async def blocked(worker: Worker, batcher: Strings) -> "asyncio.Task[Answer[str]]":
    """Let the thread hang in a first request, so that all others have to wait."""
    worker.gate.clear()
    task = asyncio.create_task(batcher("first", ["x"]))
    await asyncio.sleep(0)
    while batcher.waiting():
        await asyncio.sleep(0.001)
    return task


async def asked(batcher: Strings, *requests: tuple[str, list[str]]) -> "list[asyncio.Task[Answer[str]]]":
    tasks = [asyncio.create_task(batcher(key, texts)) for key, texts in requests]
    await asyncio.sleep(0)
    return tasks


def test_equal_requests_go_together_and_get_their_own_answers() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        first = await blocked(worker, batcher)
        tasks = await asked(batcher, ("a", ["1"]), ("b", ["2"]), ("a", ["3", "4"]), ("b", ["5"]))
        assert batcher.waiting() == 5
        worker.gate.set()
        answers = await asyncio.gather(first, *tasks)
        assert [answer.results for answer in answers] == [
            ["first:x"],
            ["a:1"],
            ["b:2"],
            ["a:3", "a:4"],
            ["b:5"],
        ]
        assert [answer.batch for answer in answers] == [1, 3, 2, 3, 2]
        assert all(answer.waited >= 0 and answer.worked >= 0 for answer in answers)

    worker = run(test, Limits())
    assert worker.batches == [("first", ["x"]), ("a", ["1", "3", "4"]), ("b", ["2", "5"])]
    assert len(worker.threads) == 1


def test_a_batch_has_a_greatest_size_and_a_large_request_goes_alone() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        first = await blocked(worker, batcher)
        tasks = await asked(batcher, ("a", ["1"]), ("a", ["2", "3"]), ("a", list("45678")), ("a", ["9"]))
        worker.gate.set()
        await asyncio.gather(first, *tasks)

    worker = run(test, Limits(batch=3))
    assert [texts for _, texts in worker.batches[1:]] == [["1", "2", "3"], list("45678"), ["9"]]


def test_nobody_waits_for_others_longer_than_said() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        assert (await batcher("a", ["alone"])).batch == 1
        tasks = await asked(batcher, ("a", ["1"]), ("a", ["2"]))
        assert [answer.batch for answer in await asyncio.gather(*tasks)] == [2, 2]

    run(test, Limits(wait=0.02))


def test_a_full_batch_does_not_wait() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        answers = await asyncio.gather(*await asked(batcher, ("a", ["1"]), ("a", ["2"])))
        assert max(answer.waited for answer in answers) < 60

    run(test, Limits(batch=2, wait=60.0))


def test_who_finds_the_queue_full_is_sent_away() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        first = await blocked(worker, batcher)
        tasks = await asked(batcher, ("a", ["1", "2"]))
        with pytest.raises(QueueFullError):
            await batcher("a", ["3", "4"])
        tasks += await asked(batcher, ("a", ["3"]))
        with pytest.raises(QueueFullError):
            await batcher("b", ["4"])
        worker.gate.set()
        assert [answer.results for answer in await asyncio.gather(*tasks)] == [["a:1", "a:2"], ["a:3"]]
        await first

    run(test, Limits(queue=3))


def test_who_goes_away_leaves_the_queue() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        first = await blocked(worker, batcher)
        one, two = await asked(batcher, ("a", ["1"]), ("a", ["2"]))
        one.cancel()
        await asyncio.sleep(0)
        assert batcher.waiting() == 1
        first.cancel()  # too late to stop the work, early enough not to be told
        worker.gate.set()
        assert (await two).results == ["a:2"]
        with pytest.raises(asyncio.CancelledError):
            await one

    worker = run(test, Limits(queue=2))
    assert ("a", ["2"]) in worker.batches


def test_one_bad_request_does_not_spoil_its_batch() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        first = await blocked(worker, batcher)
        tasks = await asked(batcher, ("a", ["1"]), ("a", ["poison"]), ("a", ["2"]))
        worker.gate.set()
        good, bad, well = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(good, Answer)
        assert isinstance(well, Answer)
        assert good.results + well.results == ["a:1", "a:2"]
        assert isinstance(bad, ValueError)
        await first

    run(test, Limits())


def test_at_the_end_what_was_accepted_is_finished() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        first = await blocked(worker, batcher)
        tasks = await asked(batcher, ("a", ["1"]), ("b", ["2"]))
        closing = asyncio.create_task(batcher.__aexit__())
        await asyncio.sleep(0)
        with pytest.raises(ClosingError):
            await batcher("a", ["late"])
        worker.gate.set()
        await closing
        assert first.done()
        assert [task.result().results for task in tasks] == [["a:1"], ["b:2"]]

    run(test, Limits())


def test_at_the_end_nobody_waits_for_others() -> None:
    async def test(worker: Worker, batcher: Strings) -> None:
        (task,) = await asked(batcher, ("a", ["1"]))
        await batcher.__aexit__()
        assert task.result().waited < 60

    run(test, Limits(wait=60.0))


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch", 0), ("queue", 0), ("wait", -0.1), ("timeout", 0.0), ("timeout", float("nan"))],
)
def test_limits_must_make_sense(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        Limits(**{name: value})  # type: ignore[arg-type]
