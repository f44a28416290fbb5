"""Nothing phones home: what the commands do on the network, seen by strace below Python and native code."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

INTERNET = re.compile(r"(?:connect|sendto|sendmsg|sendmmsg)\(.*sa_family=AF_INET6?, (.*?)\}")
LOOPBACK = re.compile(r'inet_addr\("127\.|"::1"')
TRACE = ["strace", "-f", "-qq", "-e", "trace=network", "-o"]


def can_trace() -> bool:
    """Whether strace exists and may be used; containers often forbid it."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="needs strace and the right to use it")


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a user who set nothing, with a home of its own."""
    ours = {"ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED", "XDG_CACHE_HOME", "XDG_DATA_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "HOME": str(home), "OMP_NUM_THREADS": "1"}


def foreign(trace: Path) -> list[str]:
    """Return the addresses that were contacted and are not on this machine."""
    found = INTERNET.findall(trace.read_text(encoding="utf-8", errors="replace"))
    return [address for address in found if not LOOPBACK.search(address)]


def test_the_trace_sees_a_look_up(tmp_path: Path) -> None:
    program = (
        "import socket\n"
        "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "try:\n    sender.sendto(b'', ('192.0.2.1', 53))\n"  # an address that belongs to nobody
        "except OSError:\n    print('no route')\n"
    )
    trace = tmp_path / "trace"
    subprocess.run([*TRACE, str(trace), sys.executable, "-c", program], check=True, capture_output=True)
    assert len(foreign(trace)) == 1
    assert "192.0.2.1" in foreign(trace)[0]


def test_translate_contacts_nobody_and_leaves_nothing(tmp_path: Path) -> None:
    trace, home = tmp_path / "trace", tmp_path / "home"
    home.mkdir()
    command = [*TRACE, str(trace), sys.executable, "-m", "pcfgnat", "translate", "Hello."]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(home))
    assert (done.returncode, done.stdout) == (0, "Hallo.\n"), done.stderr
    assert "AF_INET" not in trace.read_text(encoding="utf-8")
    left = [path for path in home.rglob("*") if path.is_file() and path.suffix not in (".nbi", ".nbc")]
    assert left == []  # onnxruntime's telemetry keeps a device id and a database


def test_serve_contacts_nobody(tmp_path: Path) -> None:
    trace, home = tmp_path / "trace", tmp_path / "home"
    home.mkdir()
    command = [*TRACE, str(trace), sys.executable, "-m", "pcfgnat", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(home)) as process:
        assert process.stderr is not None
        address = re.search(r"http://\S+", process.stderr.readline())
        assert address is not None
        body = json.dumps({"text": "Hello.", "trees": False}).encode()
        for _ in range(4):
            request = urllib.request.Request(
                f"{address[0]}/translate", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert json.load(answer)["translations"][0]["text"] == "Hallo."
            time.sleep(1)  # reports are sent in the background
        server = int(trace.read_text(encoding="utf-8").split(maxsplit=1)[0])
        os.kill(server, signal.SIGTERM)
    assert foreign(trace) == []
    assert [path for path in home.rglob("*") if path.is_file() and path.suffix not in (".nbi", ".nbc")] == []


def test_a_choice_of_the_user_is_kept() -> None:
    program = "import os, pcfgnat; print({name: os.environ[name] for name in pcfgnat.NO_TELEMETRY})"
    plain = {name: value for name, value in os.environ.items() if name != "RAY_USAGE_STATS_ENABLED"}
    chosen = {**plain, "ORT_DISABLE_TELEMETRY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=chosen, check=True
    )
    assert done.stdout == "{'ORT_DISABLE_TELEMETRY': '0', 'RAY_USAGE_STATS_ENABLED': '0'}\n"
