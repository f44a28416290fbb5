"""Several hosts on one machine: network namespaces that are joined by a switch, and that can be cut off."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

NETWORK = "10.77.0"


class Hosts:
    """So many hosts, numbered from 1, in this block; needs root and Debian's iproute2."""

    def __init__(self, count: int) -> None:
        self._prefix = f"pcfgnat{os.getpid()}"
        self._switch = f"{self._prefix}-switch"
        self._count = count

    def __enter__(self) -> "Hosts":
        self._ip("netns", "add", self._switch)
        try:
            self._ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
            self._ip("-n", self._switch, "link", "set", "bridge", "up")
            for number in range(1, self._count + 1):
                self._add(number)
        except subprocess.CalledProcessError:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, number: int) -> str:
        return f"{NETWORK}.{number}"

    def start(self, number: int, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Run a command on a host; it and its children are a process group."""
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth", "OMP_NUM_THREADS": "1"}
        with log.open("wb") as file:
            return subprocess.Popen(
                ["ip", "netns", "exec", self._host(number), *command],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def cut_off(self, number: int) -> None:
        """Pull the plug: nothing arrives any more, and nobody is told."""
        self._ip("-n", self._switch, "link", "set", f"port{number}", "down")

    def _add(self, number: int) -> None:
        host = self._host(number)
        self._ip("netns", "add", host)
        peer = ("peer", "name", "eth", "netns", host)
        self._ip("-n", self._switch, "link", "add", f"port{number}", "type", "veth", *peer)
        self._ip("-n", self._switch, "link", "set", f"port{number}", "master", "bridge", "up")
        self._ip("-n", host, "address", "add", f"{self.address(number)}/24", "dev", "eth")
        for device in ("eth", "lo"):
            self._ip("-n", host, "link", "set", device, "up")

    def _remove(self) -> None:
        for name in (*(self._host(number) for number in range(1, self._count + 1)), self._switch):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def _host(self, number: int) -> str:
        return f"{self._prefix}-{number}"

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)


def why_not() -> str:
    """Say why there can be no hosts here; nothing if there can be."""
    if shutil.which("ip") is None:
        return "needs iproute2"
    if os.geteuid() != 0:
        return "needs root"
    try:
        with Hosts(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.decode().strip()}"
