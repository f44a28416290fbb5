"""Processes that were started again must not listen to what dead ones have left behind."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore, Store  # type: ignore[attr-defined]

from pcfgnat.training.processes.meeting import agreed_name

PATIENCE = timedelta(seconds=20)


def started(pool: ThreadPoolExecutor, store: Store, ranks: range) -> list["Future[str]"]:
    return [pool.submit(agreed_name, store, rank, 3, PATIENCE) for rank in ranks]


def test_all_agree_and_no_two_attempts_have_the_same_name() -> None:
    store, names = HashStore(), set()
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            found = {future.result() for future in started(pool, store, range(3))}
            assert len(found) == 1
            names |= found
    assert len(names) == 3


def test_latecomers_are_waited_for() -> None:
    """What the last attempt wrote looks complete, but nobody may go on before the last one is there."""
    store = HashStore()
    with ThreadPoolExecutor(3) as pool:
        old = {future.result() for future in started(pool, store, range(3))}
        early = started(pool, store, range(2))
        threading.Event().wait(0.3)
        assert not any(future.done() for future in early)
        late = started(pool, store, range(2, 3))
        found = {future.result() for future in early + late}
    assert len(found) == 1
    assert found != old


def test_an_attempt_that_died_while_it_met_leaves_nothing_that_harms() -> None:
    store = HashStore()
    store.set("present/0", "a number")
    store.set("digest/2", "what a process saw before it was killed")
    with ThreadPoolExecutor(3) as pool:
        assert len({future.result() for future in started(pool, store, range(3))}) == 1


def test_waiting_ends() -> None:
    store = HashStore()
    for kind in ("present", "digest"):
        store.set(f"{kind}/1", "left by the dead")
    with pytest.raises(RuntimeError, match="the processes still do not see the same 2"):
        agreed_name(store, 0, 2, timedelta(seconds=0.2))
