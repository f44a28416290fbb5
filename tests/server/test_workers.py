"""Several processes behind one port, and a server's memory over many requests."""

import asyncio
import json
import os
import signal
import subprocess
import time

import psutil
import pytest
from benchmarks.serve_load import Connection, serving

BODY: dict[str, object] = {"text": "Hello.", "trees": False}


async def answers(address: str, count: int) -> list[int]:
    """Ask again and again, each time over a new connection; return the statuses."""
    found = []
    for _ in range(count):
        connection = Connection(address)
        status, _, content = await connection.post("/translate", BODY)
        connection.close()
        found.append(status)
        if status == 200:
            assert json.loads(content)["translations"][0]["text"] == "Hallo."
    return found


def workers(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    """Return the processes that serve; spawning leaves one more, which watches resources."""
    children = psutil.Process(process.pid).children()
    running = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in running if "spawn_main" in " ".join(child.cmdline())]


def test_a_worker_that_dies_is_replaced() -> None:
    with serving("--workers", "2") as (address, process):
        assert asyncio.run(answers(address, 4)) == [200] * 4
        first = workers(process)
        assert len(first) == 2
        os.kill(first[0].pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while {child.pid for child in workers(process)} & {first[0].pid} or len(workers(process)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert asyncio.run(answers(address, 4)) == [200] * 4
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not any(child.is_running() for child in first)


async def asked(address: str, count: int) -> None:
    """Send requests of many kinds over a few connections, wrong ones among them."""

    async def client(number: int) -> None:
        connection = Connection(address)
        for turn in range(count // 8):
            kind = (number + turn) % 8
            body: dict[str, object] = {"text": f"I have {turn % 97} cats.", "trees": kind == 1}
            if kind == 2:
                body = {"q": "How are you?", "source": "en", "target": "de"}
            if kind == 3:
                body = {"nothing": turn}
            status, _, _ = await connection.post("/translate" if kind != 4 else f"/{turn}", body)
            assert status == {3: 422, 4: 404}.get(kind, 200)
        connection.close()

    await asyncio.gather(*(client(number) for number in range(8)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_stays_flat_over_20000_requests() -> None:
    with serving() as (address, process):
        server = psutil.Process(process.pid)
        sizes = []
        for _ in range(5):
            asyncio.run(asked(address, 4000))
            sizes.append(server.memory_info().rss)
        assert sizes[-1] < 1.05 * sizes[0], sizes
