"""What only shows in a process of its own: signals, pipes, full disks, imports."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pcfgnat.cli import main
from tests.cli.conftest import World, short_sentences
from tests.text.bilingual import write_lines

PCFGNAT = [sys.executable, "-m", "pcfgnat"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys\nfrom pcfgnat.cli import main\ntry:\n    main(['translate', '--help'])\n"
        "except SystemExit:\n    pass\nassert not {'torch', 'numpy', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=ENVIRONMENT)


def test_a_reader_that_goes_away_is_no_error(world: World) -> None:
    command = [*PCFGNAT, "translate", "--model", str(world.teacher), "--decode", "greedy", "--batch", "1"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("Der Bär.\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().endswith(b"\n")  # each line is answered at once
        process.stdout.close()
        process.stdin.write("Der Bär.\n".encode() * 5)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_full_disk_is_an_error(world: World) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*PCFGNAT, "translate", "--model", str(world.teacher), "x"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert result.returncode == 1
    assert result.stderr == b"pcfgnat: error: No space left on device\n"


def test_interrupted_and_killed_distilling_goes_on(world: World, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "source.de", [text for text, _ in short_sentences(20)])
    arguments = [
        "distill",
        "--model",
        str(world.teacher),
        "--input",
        str(source),
        "--chunk",
        "2",
        "--decode",
        "greedy",
    ]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main([*arguments, "--output", str(whole)]) == 0
    record = tmp_path / "cut.distill.toml"
    for number, (sent, code) in enumerate([(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)], start=1):
        before = record.read_text() if record.exists() else ""
        with subprocess.Popen(
            [*PCFGNAT, *arguments, "--output", str(cut)], stderr=subprocess.PIPE, env=ENVIRONMENT
        ) as process:
            assert process.stderr is not None
            while process.poll() is None and (not record.exists() or record.read_text() == before):
                time.sleep(0.01)
            process.send_signal(sent)
            assert process.wait() == code
            assert b"Traceback" not in process.stderr.read()
        assert not (tmp_path / "cut.zh").exists(), number
    assert "complete = false" in record.read_text()
    assert main([*arguments, "--output", str(cut)]) == 0
    for suffix in ("de", "zh"):
        assert (tmp_path / f"cut.{suffix}").read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
