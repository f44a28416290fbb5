"""A contender's process, seen from the benchmark."""

import json
import os
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any

from pcfgnat.benchmark.contender import Contender

SHOWN_OF_STDERR = 300


class ContenderError(RuntimeError):
    """A contender that cannot continue; the others can."""


class Worker:
    """A process that has loaded a contender, and sleeps unless it is asked for something."""

    def __init__(self, contender: Contender, threads: int) -> None:
        self.contender = contender
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", contender.worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"},
            start_new_session=True,  # Ctrl-C is for the benchmark, which then ends its workers
        )
        try:
            self.loaded = self.ask("load", contender.to_dict(), threads)
        except BaseException:
            self.close()
            raise

    def ask(self, request: str, *arguments: Any) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([request, arguments]) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ContenderError(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._stderr.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _last_words(self) -> str:
        code = self._process.wait()
        self._stderr.seek(0)
        text = " ".join(self._stderr.read().decode("utf-8", "replace").split())[-SHOWN_OF_STDERR:]
        return f"its process ended with code {code}{f': … {text}' if text else ''}"
