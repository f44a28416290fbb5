"""The command in a process of its own: signals, clients that leave, and what it says if it cannot start."""

import asyncio
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from benchmarks.serve_load import Connection, serving

from pcfgnat.cli import main
from pcfgnat.server.models import named_models

WAITING = b'pcfgnat_waiting_texts{model="en-de"} '
GONE = b"pcfgnat_clients_gone_total "
ANIMALS = [first + second for first in "bcdfghjklm" for second in ("at", "og", "ird", "orse", "ouse", "ish")]
# sixty sentences a text, all different: equal ones would be translated once
LONG: dict[str, object] = {
    "text": [" ".join(f"{who} have a {animal}." for animal in ANIMALS) for who in ("I", "You", "We", "They")]
}
SHORT: dict[str, object] = {"text": ["How are you?"] * 8}


async def asked(address: str, body: dict[str, object]) -> tuple[int, bytes]:
    """Ask and wait for status and body."""
    connection = Connection(address)
    try:
        status, _, content = await connection.post("/translate", body)
    finally:
        connection.close()
    return status, content


async def until(address: str, name: bytes, value: float) -> None:
    """Wait for a metric to have a value."""
    connection = Connection(address)
    found = -1.0
    while found != value:
        _, _, text = await connection.get("/metrics")
        line = next(line for line in text.splitlines() if line.startswith(name))
        found = float(line.removeprefix(name))
        await asyncio.sleep(0.01)
    connection.close()


async def stopped_in_the_middle(address: str, process: "subprocess.Popen[str]") -> list[tuple[int, bytes]]:
    """Let the model be busy, fill the queue, let those leave, fill it again, and stop while they wait."""
    first = asyncio.create_task(asked(address, LONG))
    leaving = [asyncio.create_task(asked(address, SHORT)) for _ in range(4)]
    await until(address, WAITING, 32)
    for task in leaving:
        task.cancel()
    await until(address, GONE, 4)
    staying = [asyncio.create_task(asked(address, SHORT)) for _ in range(5)]
    await until(address, WAITING, 40)
    assert not first.done()
    process.send_signal(signal.SIGTERM)
    return await asyncio.gather(first, *staying)


def test_who_waits_is_answered_before_the_end_and_who_left_holds_no_place() -> None:
    with serving("--queue", "40", "--batch", "1") as (address, process):
        answers = asyncio.run(stopped_in_the_middle(address, process))
        assert process.wait(60) == -signal.SIGTERM
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])))
    assert [status for status, _ in answers] == [200] * 6
    assert all(b'"translations":[{"source":' in body for _, body in answers)


def test_models_are_named() -> None:
    assert named_models([]) == {"en-de": None}
    assert named_models(["a=x/y", "b.2=z=z"]) == {"a": Path("x/y"), "b.2": Path("z=z")}
    assert named_models(["runs/small/"], bundled=True) == {"small": Path("runs/small/"), "en-de": None}
    assert named_models(["runs/x=1/final"]) == {"final": Path("runs/x=1/final")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "somewhere"], "somewhere must be a checkpoint, but it has no checkpoint.toml"),
        (["--model", "a b=somewhere"], "--model must be DIR or NAME=DIR"),
        (["--model", "a/b=somewhere"], "--model must be DIR or NAME=DIR"),
        (["--model", "a="], "--model must be DIR or NAME=DIR"),
        (["--model", "x/a", "--model", "y/a"], "got 'a' twice; use NAME=DIR"),
        (["--model", "en-de=x", "--bundled"], "no --model may have that name"),
        (["--cors", "example.org"], "an origin must look like https://example.org"),
        (["--api-key-file", "/dev/null"], "must hold a key, but /dev/null is empty"),
        (["--model", "a=x", "--model", "a=y"], "got 'a' twice"),
        (["--model", "a=/no/such/place"], "/no/such/place"),
        (["--host", "no.such.host.invalid"], "--host must be an address"),
        (["--port", "70000"], "--port must be between"),
        (["--timeout", "0"], "timeout must be"),
        (["--wait", "-1"], "wait must be"),
    ],
)
def test_what_cannot_be_served_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_port_in_use_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 1
    assert "Address already in use" in capsys.readouterr().err
