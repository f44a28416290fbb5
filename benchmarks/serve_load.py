"""Load on a server: many clients for some seconds, what they got, how long it took, and how memory grew.

python -m benchmarks.serve_load                    200 clients for 30 s on the bundled model
python -m benchmarks.serve_load --compare          by turns with batches of one sentence, and the ratio

Server and clients share the machine. What the clients cost is kept small: plain sockets on uvloop, one
request after the other on each. No request is lost if all are answered and the server has counted as many
as the clients.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import psutil
import uvloop

WORDS = (
    "I",
    "you",
    "we",
    "they",
    "the",
    "a",
    "my",
    "cat",
    "dog",
    "house",
    "tea",
    "train",
    "see",
    "like",
    "buy",
)
BUSY = (429, 503)


@dataclass
class Load:
    """What clients saw: how often which status (0: no answer), seconds of each, the server's megabytes."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    duration: float = 0.0
    counted: int = 0

    @property
    def throughput(self) -> float:
        """Translations a second."""
        return self.statuses[200] / self.duration

    @property
    def errors(self) -> dict[int, int]:
        """What should not be: anything but translations and requests to come again."""
        return {status: n for status, n in self.statuses.items() if status != 200 and status not in BUSY}

    def report(self, name: str) -> str:
        """Say it in a line or two."""
        cuts = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [0.0] * 99
        busy = sum(self.statuses[status] for status in BUSY)
        sent = sum(self.statuses.values())
        memory = f"{self.megabytes[0]:.0f} → {self.megabytes[-1]:.0f} MB" if self.megabytes else "unknown"
        return (
            f"{name}: {self.throughput:.1f} translations/s; {sent} requests, {self.counted} counted by the "
            f"server, {busy} sent away, errors {self.errors or 'none'}\n"
            f"  answers after {cuts[49] * 1000:.0f} ms (median), {cuts[94] * 1000:.0f} ms (95 %), "
            f"{max(self.seconds, default=0) * 1000:.0f} ms (longest); memory {memory}"
        )


async def put_load(address: str, clients: int, seconds: float, model: str | None = None) -> Load:
    """Let clients ask one question after the other until the time is over; all questions are answered."""
    load = Load()
    before = await counted(address)
    start = time.perf_counter()
    deadline = start + seconds
    await asyncio.gather(*(_client(address, number, deadline, load, model) for number in range(clients)))
    load.duration = time.perf_counter() - start
    load.counted = await counted(address) - before
    return load


async def _client(address: str, number: int, deadline: float, load: Load, model: str | None) -> None:
    chance = random.Random(number)
    wanted = {"trees": False, **({"model": model} if model else {})}
    connection = Connection(address)
    while time.perf_counter() < deadline:
        text = " ".join(chance.choices(WORDS, k=chance.randint(3, 10))) + "."
        start = time.perf_counter()
        try:
            status, headers, _ = await connection.post("/translate", {"text": text, **wanted})
        except (OSError, EOFError, ValueError):
            load.statuses[0] += 1
            connection.close()
            continue
        load.statuses[status] += 1
        if status in BUSY:
            await asyncio.sleep(float(headers["retry-after"]) * chance.random())
        else:
            load.seconds.append(time.perf_counter() - start)
    connection.close()


class Connection:
    """HTTP/1.1 over one socket that stays open, as little of it as the server needs."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: dict[str, object]) -> tuple[int, dict[str, str], bytes]:
        """Send JSON; return status, headers and body."""
        return await self._asked("POST", path, json.dumps(body).encode())

    async def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Ask for a page."""
        return await self._asked("GET", path, b"")

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _asked(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        content = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(status_line.split()[1]), headers, content


async def counted(address: str) -> int:
    """How many requests for translations the server says that it has answered."""
    connection = Connection(address)
    _, _, text = await connection.get("/metrics")
    connection.close()
    pattern = rb'pcfgnat_requests_total\{path="/translate",status="\d+"\} (\S+)'
    return round(sum(float(value) for value in re.findall(pattern, text)))


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `pcfgnat serve`; gives address and process."""
    command = [sys.executable, "-m", "pcfgnat", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            if found is None:
                raise RuntimeError(f"the server did not start: {line}{process.stderr.read()}")
            yield found[0], process
        finally:
            process.terminate()
            sys.stderr.write(process.stderr.read())


async def measured(address: str, server: psutil.Process, options: argparse.Namespace) -> Load:
    """Warm the server up, then put load on it and look at its memory once a second."""
    await put_load(address, options.clients, min(3.0, options.seconds), options.model)
    sizes: list[float] = []

    async def watch() -> None:
        while True:
            sizes.append(server.memory_info().rss / 1e6)
            await asyncio.sleep(1.0)

    watching = asyncio.create_task(watch())
    load = await put_load(address, options.clients, options.seconds, options.model)
    watching.cancel()
    load.megabytes = sizes
    return load


def compared(options: argparse.Namespace) -> list[Load]:
    """Put load on two servers by turns, one of which takes one sentence at a time, and print the ratios."""
    ratios, loads = [], []
    with serving(*options.serve) as batched, serving("--batch", "1", *options.serve) as single:
        for turn in range(1, options.turns + 1):
            found = []
            for name, (address, process) in (("batched", batched), ("one at a time", single)):
                found.append(uvloop.run(measured(address, psutil.Process(process.pid), options)))
                print(f"turn {turn}, {found[-1].report(name)}", flush=True)
            ratios.append(found[0].throughput / found[1].throughput)
            loads += found
    spread = f"median of {len(ratios)}, {min(ratios):.2f} to {max(ratios):.2f}"
    print(f"batching gives {statistics.median(ratios):.2f} times the throughput ({spread})")
    return loads


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--model", help="name in requests (the server's first)")
    parser.add_argument("--compare", action="store_true", help="by turns with batches of one sentence")
    parser.add_argument("--turns", type=int, default=5, help="of --compare (5)")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="options of `pcfgnat serve`")
    options = parser.parse_args()
    if options.compare:
        loads = compared(options)
    else:
        with serving(*options.serve) as (address, process):
            loads = [uvloop.run(measured(address, psutil.Process(process.pid), options))]
        print(loads[0].report("load"))
    if any(load.errors or load.counted != sum(load.statuses.values()) for load in loads):
        sys.exit("requests failed or were lost")


if __name__ == "__main__":
    main()
