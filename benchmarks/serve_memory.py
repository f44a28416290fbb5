"""Memory of the server over many requests: `python -m benchmarks.serve_memory [REQUESTS]`.

A real server on the loopback address answers short texts, one connection after the other; its resident
memory is printed at marks on the way.
"""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MARKS = (100, 1_000, 2_000, 5_000, 10_000, 20_000)
KEPT = 100  # requests of a connection
WORDS = [
    "the",
    "cat",
    "old",
    "house",
    "is",
    "here",
    "today",
    "we",
    "saw",
    "two",
    "dogs",
    "Tom",
    "never",
    "came",
]


def main() -> None:
    """Print megabytes by the number of answered requests."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else MARKS[-1]
    command = [sys.executable, "-m", "pcfgnat", "serve", "--port", "0", "--threads", "1", "--wait", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            port = int(server.stderr.readline().rsplit(":", 1)[1])
            for done, megabytes in memory(server.pid, port, wanted):
                print(f"{done:6} requests  {megabytes:7.1f} MB", flush=True)
        finally:
            server.send_signal(signal.SIGTERM)


def memory(process: int, port: int, wanted: int) -> Iterator[tuple[int, float]]:
    """Yield the number of answers so far and the server's resident memory, at every mark."""
    for first in range(0, wanted, KEPT):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for number in range(first + 1, min(first + KEPT, wanted) + 1):
            ask(connection, number)
            if number in MARKS or number == wanted:
                yield number, resident(process)
        connection.close()


def ask(connection: http.client.HTTPConnection, number: int) -> None:
    """Send one text, which differs from the others, and read its translation."""
    words = [WORDS[(number * factor + number // 7) % len(WORDS)] for factor in range(1, 2 + number % 9)]
    body = json.dumps({"text": f"{' '.join(words)} {number}."})
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"request {number} must be answered, got {answer.status}: {content[:200]!r}")


def resident(process: int) -> float:
    """Return the resident memory of a process in megabytes, as Linux counts it."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError(f"/proc/{process}/status must have VmRSS, got none")


if __name__ == "__main__":
    main()
