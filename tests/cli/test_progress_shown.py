"""Progress as a person at a terminal sees it: how much is done, the rate and the time left."""

import gzip
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from pcfgnat.storage.lines import count_lines

LINES = [f"Tom has {number} cats." for number in range(2, 302)]
BAR = re.compile(r"(\d+)%\|.*\| (\d+)/300 \[\d+:\d+<\S+, +\S+ lines/s\]")


def seen(arguments: list[str]) -> str:
    """Run a command whose stderr is a terminal, and return what was written there."""
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (24, 120))
    command = [sys.executable, "-m", "pcfgnat", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer) as process:
        os.close(writer)
        found = b"".join(iter(lambda: _read(reader), b""))
    os.close(reader)
    assert process.returncode == 0, found
    return found.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody writes any more
        return b""


@pytest.mark.parametrize("output", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_translate_shows_rate_and_time_left(tmp_path: Path, output: bool) -> None:
    source = tmp_path / "source"
    source.write_text("".join(f"{line}\n" for line in LINES))
    target = ["--output", str(tmp_path / "target")] if output else []
    found = seen(["translate", "--input", str(source), *target, "--batch", "16"])
    assert BAR.search(found), found


def test_quiet_shows_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("One.\n")
    assert seen(["-q", "translate", "--input", str(source), "--output", str(tmp_path / "target")]) == ""


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)])
def test_lines_are_counted(tmp_path: Path, text: str, lines: int) -> None:
    plain, packed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    assert (count_lines(plain), count_lines(packed)) == (lines, lines)


def test_what_cannot_be_counted_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b"a\n" * 1000)[:-12])
    os.mkfifo(tmp_path / "pipe")
    assert [count_lines(path) for path in (None, tmp_path / "broken.gz", tmp_path / "pipe")] == [None] * 3
