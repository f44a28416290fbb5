"""A server as one process or several that share a port."""

import logging
import multiprocessing
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from pcfgnat.runtimes.onnx import ExportedOptions
from pcfgnat.server.access import Access
from pcfgnat.server.app import create_app
from pcfgnat.server.limits import Limits
from pcfgnat.server.logs import LogFormat, configure_logging
from pcfgnat.server.models import ServedModel

STOP_SECONDS = 5  # beyond the time of a request
POLL_SECONDS = 0.5
FAILURES_PER_WORKER = 3
SPAWN = multiprocessing.get_context("spawn")
LOG = logging.getLogger("pcfgnat.server")


@dataclass(frozen=True)
class ServeSettings:
    """All that a worker needs to know; it is sent to the processes.

    models:  directories by name, None for the bundled model; the first is the default
    device:  where torch runs models that are not exported
    threads: of each worker; None: one for each core
    verifiers: directories of the models that verify others, by the others' names
    """

    models: Mapping[str, Path | None]
    device: str = "cpu"
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)
    access: Access = field(default_factory=Access)
    log_level: str = "warning"
    log_format: LogFormat = "text"
    verifiers: Mapping[str, Path] = field(default_factory=dict)

    def __call__(self) -> FastAPI:
        """Load the models and make the application, in the process that runs it."""
        configure_logging(self.log_level, self.log_format)
        onnx = ExportedOptions(threads=self.threads)
        models = {
            name: ServedModel.load(name, place, self.device, onnx, self.verifiers.get(name))
            for name, place in self.models.items()
        }
        if self.threads is not None and "torch" in sys.modules:  # a model needed it
            sys.modules["torch"].set_num_threads(self.threads)
        return create_app(models, self.limits, self.access)


def serve(settings: ServeSettings, listener: socket.socket, workers: int = 1) -> None:
    """Serve until a signal comes; what was accepted by then is answered."""
    if workers == 1:
        serve_here(settings, listener)
    else:
        Supervisor(settings, listener, workers).run()


def serve_here(settings: ServeSettings, listener: socket.socket) -> None:
    """Load the models and serve in this process."""
    config = uvicorn.Config(
        settings(),
        log_config=None,
        log_level=settings.log_level,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=int(settings.limits.timeout) + STOP_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


class Supervisor:
    """Keeps as many workers running as were asked for, each with its own models, until a signal comes."""

    def __init__(self, settings: ServeSettings, listener: socket.socket, workers: int) -> None:
        self._settings, self._listener, self._workers = settings, listener, workers
        self._stopping = False
        self._failures = 0

    def run(self) -> None:
        """Start the workers and replace those that end; give up if they keep failing."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        processes = [self._started() for _ in range(self._workers)]
        while not self._stopping:
            wait([process.sentinel for process in processes], timeout=POLL_SECONDS)
            for index, process in enumerate(processes):
                if process.is_alive() or self._stopping:
                    continue
                LOG.error("worker %s ended with exit code %s", process.pid, process.exitcode)
                self._failures += 1
                if self._failures > FAILURES_PER_WORKER * self._workers:
                    self._stopping = True
                else:
                    processes[index] = self._started()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        if self._failures > FAILURES_PER_WORKER * self._workers:
            raise OSError(f"workers ended {self._failures} times; the log has the reasons")

    def _started(self) -> SpawnProcess:
        process = SPAWN.Process(target=serve_here, args=(self._settings, self._listener))
        process.start()
        return process

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True


def listen(host: str, port: int) -> socket.socket:
    """Take the port before models are loaded, so that one in use is found at once."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be between 0 and 65535, got {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"--host must be an address of this machine, got {host!r}") from error
    return socket.create_server(address[:2], family=family, backlog=2048)
