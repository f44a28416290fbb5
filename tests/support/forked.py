"""Commands run over and over in children of one process, which has imported everything already, to be killed.

As a program it reads a list of arguments as JSON from each line of stdin, and answers with the id of the
child and, once that has ended, with its exit code.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Forked:
    """Runs commands of pcfgnat one after the other, each in a process that can be killed."""

    def __init__(self, server: "subprocess.Popen[str]", errors: Path) -> None:
        self._server, self._errors = server, errors

    def run(self, arguments: Sequence[str], kill_after: float | None = None) -> int:
        """Run a command, kill it after some time if it still runs, and return the exit code."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{json.dumps(list(arguments))}\n")
        self._server.stdin.flush()
        child = int(self._server.stdout.readline())
        if kill_after is not None and not select.select([self._server.stdout], [], [], kill_after)[0]:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return int(self._server.stdout.readline())

    def seconds(self, arguments: Sequence[str]) -> float:
        """Run a command to its end, and return how long it took."""
        start = time.monotonic()
        assert self.run(arguments) == 0, self.said()
        return time.monotonic() - start

    def said(self) -> str:
        """Return all that came out on stderr."""
        return self._errors.read_text(encoding="utf-8")


@contextmanager
def forked(errors: Path) -> Iterator[Forked]:
    """Start the process; what the commands say goes to a file."""
    with (
        errors.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=ROOT,
        ) as server,
    ):
        yield Forked(server, errors)
        assert server.stdin is not None
        server.stdin.close()


def serve() -> None:
    import numba  # noqa: F401 (so that no child has to)
    import sacrebleu  # noqa: F401
    import torch
    import tqdm  # noqa: F401

    import pcfgnat.cli
    import pcfgnat.runtimes.torch
    import pcfgnat.training
    import pcfgnat.translator  # noqa: F401

    torch.set_num_threads(1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(arguments: list[str]) -> None:
    from pcfgnat.cli import main

    code = 1
    os.dup2(2, 1)  # stdout is where the process ids go
    try:
        code = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
