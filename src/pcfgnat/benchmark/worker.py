"""The process of one contender: it loads once, and then answers requests line by line until stdin ends.

Requests and answers are JSON. Whatever libraries print goes to stderr, so that answers stay readable.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from pcfgnat.benchmark.contender import Contender
from pcfgnat.benchmark.runners import Runner, load_runner

STATUS = Path("/proc/self/status")
JUDGED_AT_A_TIME = 32

Load = Callable[[Contender, int], Runner]


class Server:
    """What a worker does; every method answers one kind of request."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """What was loaded."""
        if self._runner is None:
            raise ValueError("a contender must be loaded first")
        return self._runner

    def load(self, contender: dict[str, Any], threads: int) -> dict[str, Any]:
        """Load a contender, and report the time it took and the memory it uses."""
        start = time.perf_counter()
        self._runner = self._load(Contender.from_dict(contender), threads)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "memory": peak_memory(), "ran": self._runner.description}

    def time(self, batches: list[list[str]], length: int, enough: float) -> dict[str, Any]:
        """Translate batches one by one until they are all done or `enough` seconds have gone."""
        seconds: list[float] = []
        for texts in batches:
            start = time.perf_counter()
            self.runner.run(texts, length)
            seconds.append(time.perf_counter() - start)
            if sum(seconds) >= enough:
                break
        return {"seconds": seconds, "memory": peak_memory()}

    def translate(self, texts: list[str]) -> dict[str, Any]:
        """Return translations, to be judged."""
        batches = [texts[i : i + JUDGED_AT_A_TIME] for i in range(0, len(texts), JUDGED_AT_A_TIME)]
        return {"lines": [line for batch in batches for line in self.runner.run(batch, 0)]}


def peak_memory() -> int:
    """Return the greatest resident size of this process so far, in bytes."""
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def answers() -> TextIO:
    """Return where answers go, and let everything else that is printed go to stderr."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return stream


def main(load: Load = load_runner) -> None:
    """Serve until there are no more requests; `load` makes a runner of a contender and its threads."""
    output, server = answers(), Server(load)
    methods: dict[str, Callable[..., dict[str, Any]]] = {
        "load": server.load,
        "time": server.time,
        "translate": server.translate,
    }
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = methods[name](*arguments)
        except Exception as error:  # whatever it is, the others shall go on
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        print(json.dumps(answer), file=output, flush=True)


if __name__ == "__main__":
    main()
